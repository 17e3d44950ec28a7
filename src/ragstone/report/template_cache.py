"""Keeps compiled templates in the folder in which Python keeps the bytecode of this
package."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from ragstone._version import __version__


class TemplateCache(FileSystemBytecodeCache):
    """Caches the compiled templates of the environment called `environment`, as compiling
    takes longer than rendering.

    Environments escape differently, so none uses the templates of another. A template is
    compiled again if it changes, or with another version of Ragstone, Jinja or Python.
    Nothing is written if Python writes no bytecode.
    """

    def __init__(self, environment: str) -> None:
        versions = f"{__version__}.{jinja2.__version__}.{sys.implementation.cache_tag}"
        super().__init__(
            str(Path(cache_from_source(__file__)).parent),
            f"{environment}.%s.{versions}.jinja",
        )

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            # Like Python, do without a cache if the folder can't be written to.
            with suppress(OSError):
                super().dump_bytecode(bucket)
