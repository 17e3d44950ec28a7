"""The stores by their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragstone.ci.platforms import PLATFORMS
from ragstone.ci.store import BaselineStore
from ragstone.errors import ConfigError
from ragstone.job.stores.folder import FolderStore
from ragstone.job.stores.git import Git
from ragstone.job.stores.git_notes import GitNotesStore
from ragstone.job.stores.s3 import S3Store

_FORMS = ("folder:PATH", "s3://BUCKET/PREFIX", "git-notes", "git-notes:REMOTE")


def open_store(name: str, *, root: Path, out: Path, git: Git, environ: Mapping[str, str]) -> BaselineStore:
    """The store called `name`, such as ``s3://bucket/prefix``. Runs are written to `out`. Raises ConfigError."""
    scheme, _, rest = name.partition(":")
    if scheme == "folder" and rest:
        return FolderStore((root / rest).absolute())
    if scheme == "s3" and rest.startswith("//") and rest.strip("/"):
        return S3Store.at(rest.strip("/"))
    if scheme == "git-notes" and not rest.startswith("-"):
        return GitNotesStore(git, rest or "origin")
    for platform in PLATFORMS:
        if platform.store is not None and platform.store.scheme == scheme:
            return platform.store.open(platform.variables(environ), rest, out)
    raise ConfigError(f"'{name}' is not a baseline store.", where="gate.baseline_store", hint=f"Use {_forms()}.")


def _forms() -> str:
    stores = [one.store for one in PLATFORMS if one.store is not None]
    own = [form for store in stores for form in (store.scheme, f"{store.scheme}:{store.argument}")]
    return f"{', '.join((*_FORMS, *own[:-1]))}, or {own[-1]} (docs/other-ci.md)"
