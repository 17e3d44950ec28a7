"""What the front doors do: one module a use case, clients and settings passed in."""
