"""The worker, which runs a python entrypoint in the user's interpreter. Its modules are
joined into one source (`join`).

Ragstone itself also imports `adapters`, which decides what can be called, for callables
of the Python API; and `returns`, which decides what may be returned, for these and for
the JSON of commands, services and files.
"""
