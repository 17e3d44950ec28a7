"""Postpones the modules of the OpenAI SDK that only define types, until something asks for one.

The SDK imports 470 of them at once, two thirds of the time of its import. Requests and replies are plain JSON here. The
standard `importlib.util.LazyLoader` was tried and loads all of them, since importing a module reads attributes of the
packages around it, which takes twice as long as no hook at all; the SDK itself is imported lazily, and has its types.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGE = "openai.types"


class _Postponed(ModuleType):
    """A package whose code runs when an attribute is first missing. Modules in it can be imported before."""

    def __getattr__(self, name: str) -> object:
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec = self.__spec__
        assert spec is not None  # noqa: S101 - set by the import
        assert isinstance(spec.loader, _Postponing)  # noqa: S101
        spec.loader = self.__loader__ = spec.loader.loader
        spec.loader.exec_module(self)
        return getattr(self, name)


class _Postponing(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Postponed


class _Finder(MetaPathFinder):
    """Finds packages of types, whose own code only gathers what their modules define."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return None
        spec.loader = _Postponing(spec.loader)
        return spec


def postpone_types() -> None:
    """Import these packages without running them, from now on. For a process of our own: it holds for all its code."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
