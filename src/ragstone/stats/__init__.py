"""Statistics: numpy arrays in, plain dataclasses out; independent of the domain."""
