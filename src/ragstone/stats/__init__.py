"""Statistics: numpy arrays in, plain records out; independent of the domain."""
