"""The sandbox for the user's code when Ragstone runs in its container."""
