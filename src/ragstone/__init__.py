"""Ragstone: a CI/CD quality gate for RAG systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstone._version import __version__

if TYPE_CHECKING:
    from ragstone.api import compare, evaluate, load_golden_set

__all__ = ["__version__", "compare", "evaluate", "load_golden_set"]


def __getattr__(name: str) -> object:
    # Loaded on first use, so that `import ragstone` and `ragstone --help` stay fast.
    if name in {"compare", "evaluate", "load_golden_set"}:
        from ragstone import api

        return getattr(api, name)
    raise AttributeError(f"module 'ragstone' has no attribute '{name}'")
