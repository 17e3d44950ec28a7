"""The files of a commit that the gate goes by: its config file, and what that names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.github.api.base_files import list_base_files, read_base_files
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.reviewed import ReviewedBase, base_commit
from ragstone.settings.load import CONFIG_FILE, PYPROJECT, load_settings
from ragstone.settings.settings import Settings


class CommitFiles:
    """The files of commit `sha` of this repository, read through GitHub's API. All of
    it raises GitHubApiError.

    `checkout` are the settings of the checkout in `workspace`, which say where the
    config file is. What is read is written below `folder`.
    """

    def __init__(
        self,
        api: GitHubApi,
        sha: str,
        checkout: Settings,
        workspace: Path,
        folder: Path,
    ) -> None:
        self.sha = sha
        self.workspace = workspace.resolve()
        self.place = checkout.root.resolve().relative_to(self.workspace)
        """The folder of the config file, relative to the root of the repository."""
        self._api = api
        self._config = None if checkout.config is None else checkout.config.name
        self._folder = folder

    def new_folder(self) -> Path:
        """A folder to read into, which doesn't exist yet."""
        return Path(tempfile.mkdtemp(dir=self._folder)) / "files"

    def read(
        self, paths: Iterable[str], folder: Path | None = None
    ) -> Mapping[str, Path]:
        """Write those of `paths` that are files of the commit to `folder`: see
        `read_base_files`."""
        return read_base_files(self._api, self.sha, paths, folder or self.new_folder())

    def list(self) -> tuple[str, ...]:
        """The paths of all regular files."""
        return list_base_files(self._api, self.sha)

    def inside(self, path: str | Path) -> Path:
        """`path` from the settings, relative to the root of the repository. Raises
        ConfigError if it leads out."""
        normal = Path(os.path.normpath(self.workspace / self.place / path))
        if not normal.is_relative_to(self.workspace):
            raise ConfigError(f"{path} is outside the repository.")
        return normal.relative_to(self.workspace)

    @cached_property
    def settings(self) -> Settings:
        """The settings in the commit's config file alone: the one that the workflow
        names, else the one at the location of the checkout's.

        Raises ConfigError if they can't be read.
        """
        folder = self.new_folder()
        names = (CONFIG_FILE, PYPROJECT) if self._config is None else (self._config,)
        self.read([(self.place / name).as_posix() for name in names], folder)
        root = folder / self.place
        config = (
            root / names[0]
            if self._config is not None and (root / names[0]).is_file()
            else None
        )
        try:
            return load_settings(directory=root, environ={}, config=config)
        except ConfigError as error:
            raise ConfigError(
                f"the base branch's config can't be read: {error.message}",
                hint=error.hint,
            ) from None


class BaseUnreadable(Exception):  # noqa: N818 - an outcome to report
    """The files of the base can't be read; the message is a clause that says why."""


class BaseFiles:
    """The files of what a job trusts, which are looked up when they are first
    needed."""

    def __init__(
        self,
        api: GitHubApi | None,
        reviewed: ReviewedBase,
        checkout: Settings,
        workspace: Path,
        folder: Path,
    ) -> None:
        self._api = api
        self._reviewed = reviewed
        self._checkout = checkout
        self._workspace = workspace
        self._folder = folder

    @cached_property
    def commit(self) -> CommitFiles | None:
        """None if the checkout is the base itself. Raises BaseUnreadable."""
        if self._api is None:
            raise BaseUnreadable("there is no GitHub token")
        try:
            sha = base_commit(self._api, self._reviewed)
        except GitHubApiError as api_error:
            raise BaseUnreadable(str(api_error)) from None
        return (
            None
            if sha is None
            else CommitFiles(
                self._api, sha, self._checkout, self._workspace, self._folder
            )
        )
