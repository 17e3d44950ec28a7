"""Use cases, a module each: read, evaluate, decide, write; and the settings made into
their requests."""
