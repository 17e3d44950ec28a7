"""The worker, which runs a python entrypoint in the user's interpreter, in modules that
are joined into one source.

Ragstone itself also uses what can be called (`adapters`) and what may be returned
(`returns`), for callables and for the JSON of commands, services and files. They are
the only implementation of those rules.
"""
