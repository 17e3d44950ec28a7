"""Statistics: numpy arrays in, plain dataclasses out; no domain words."""
