"""Compiled templates, in the folder in which Python keeps the bytecode of this
package's modules."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from ragstone._version import __version__


class TemplateCache(FileSystemBytecodeCache):
    """Spares the next process the compilation of the templates of one `environment`, by
    its name, which takes longer than rendering them.

    Another environment escapes otherwise, and never gets what this one compiled.
    They are compiled again after a change to one, or with another version of Ragstone,
    Jinja or Python. Nothing is written where Python writes no bytecode.
    """

    def __init__(self, environment: str) -> None:
        versions = f"{__version__}.{jinja2.__version__}.{sys.implementation.cache_tag}"
        super().__init__(
            str(Path(cache_from_source(__file__)).parent),
            f"{environment}.%s.{versions}.jinja",
        )

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(
                OSError
            ):  # as Python does where the folder can't be written to
                super().dump_bytecode(bucket)
