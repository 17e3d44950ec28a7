"""Compiled templates of a package, in the folder in which Python keeps the bytecode of
the package's modules."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache


class TemplateCache(FileSystemBytecodeCache):
    """Spares the next process the compilation of `package`'s templates, which takes
    longer than rendering them.

    `environment` is the file of the module whose environment compiles them: after a
    change to it, to a template, or to the version of Jinja, a template is compiled
    again. Nothing is written where Python writes no bytecode.
    """

    def __init__(self, package: str, environment: str) -> None:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"no package called {package}", name=package)
        super().__init__(
            str(Path(cache_from_source(spec.origin)).parent),
            f"%s.{sys.implementation.cache_tag}.jinja",
        )
        self._environment = Path(environment)

    def get_source_checksum(self, source: str) -> str:
        compiler = (
            f"{jinja2.__version__}\n{self._environment.read_text(encoding='utf-8')}"
        )
        return hashlib.sha256(f"{compiler}\n{source}".encode()).hexdigest()

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(
                OSError
            ):  # as Python does where the folder can't be written to
                super().dump_bytecode(bucket)
