"""Reads the files of a commit that the gate depends on: its config file, policy, golden
set and templates."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ragstone.errors import ConfigError
from ragstone.gate.accepted import ACCEPTED_FILE
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.github.api.base_files import list_base_files, read_base_files
from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.github.api.reviewed import base_commit
from ragstone.github.job import Job
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Texts
from ragstone.pipeline.base_checkout import config_in
from ragstone.settings.load import CONFIG_FILE, PYPROJECT, load_settings
from ragstone.settings.settings import Settings

_Value = TypeVar("_Value")
_WILDCARDS = frozenset("*?[")


class CommitFiles:
    """The files of commit `sha` of the job's repository, read through GitHub's API.

    The config file is at the same path as in the checkout. All methods raise
    GitHubApiError, and ConfigError or GoldenSetError for files that are not valid.
    """

    def __init__(self, job: Job, api: GitHubApi, sha: str) -> None:
        self.sha = sha
        self.workspace = job.places.workspace.resolve()
        self.checkout = job.settings
        # The folder of the config file, relative to the root of the repository.
        self.place = job.settings.root.resolve().relative_to(self.workspace)
        self._api = api
        self._temporary = job.temporary

    def new_folder(self) -> Path:
        """A folder to read into, which doesn't exist yet."""
        return Path(tempfile.mkdtemp(dir=self._temporary)) / "files"

    def read(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        """Write the commit's files at `paths` to `folder` (see `read_base_files`)."""
        return read_base_files(self._api, self.sha, paths, folder)

    def list(self) -> Texts:
        """The paths of all regular files."""
        return list_base_files(self._api, self.sha)

    def inside(self, path: str | Path) -> str:
        """`path` from the settings, relative to the root of the repository. Raises
        ConfigError if it leads out."""
        normal = Path(os.path.normpath(self.workspace / self.place / path))
        if not normal.is_relative_to(self.workspace):
            raise ConfigError(f"{path} is outside the repository.")
        return normal.relative_to(self.workspace).as_posix()

    @cached_property
    def settings(self) -> Settings:
        """The settings in the commit's config file alone, which has the name of the
        checkout's, or one of the default names."""
        folder = self.new_folder()
        config = self.checkout.config
        names = (CONFIG_FILE, PYPROJECT) if config is None else (config.name,)
        self.read([(self.place / name).as_posix() for name in names], folder)
        root = folder / self.place
        config_file = config_in(root, self.checkout)
        try:
            return load_settings(directory=root, environ={}, config=config_file)
        except ConfigError as error:
            raise ConfigError(
                f"the base branch's config can't be read: {error.message}",
                hint=error.hint,
            ) from None

    def policy(self) -> Policy:
        """The commit's policy, with its accepted drops."""
        thresholds = self._in_force(
            "gate.thresholds",
            self.settings.gate.thresholds,
            self.checkout.gate.thresholds,
        )
        path = self.inside(thresholds or POLICY_FILE)
        accepted = Path(path).with_name(ACCEPTED_FILE).as_posix()
        folder = self.new_folder()
        present = self.read([path, accepted], folder)
        if path not in present:
            return default_policy(folder / self.place)
        return load_policy(present[path], known_metrics=None, calibration=False)

    def samples(self) -> GoldenSet:
        """The samples of the commit's golden set that are no drafts."""
        golden = self.settings.golden
        configured = self._in_force(
            "golden.paths", golden.paths, self.checkout.golden.paths
        )
        paths = list(map(self.inside, configured))
        names = paths
        if any(_WILDCARDS.intersection(path) for path in paths):
            # In fnmatch, * also matches slashes, so this may be more files than needed.
            # `load_golden_set` applies the patterns as usual.
            names = [
                name
                for name in self.list()
                if any(fnmatch(name, path) for path in paths)
            ]
        folder = self.new_folder()
        if not self.read(names, folder):
            return GoldenSet(())
        samples = load_golden_set(
            paths,
            root=folder,
            columns=golden.columns,
            limit=self.checkout.golden.limit,
            history=golden.history,
        )
        return samples.select(lambda sample: not sample.is_draft)

    def _in_force(self, key: str, of_commit: _Value, of_checkout: _Value) -> _Value:
        """The value of a setting for this commit. A value of the checkout that comes
        from a flag, an input or a variable applies to both commits."""
        is_from_file = key in self.checkout.from_file or not of_checkout
        return of_commit if is_from_file else of_checkout


class BaseFiles:
    """The files of the commit that a job trusts, looked up when they are first
    needed."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @cached_property
    def commit(self) -> CommitFiles | None:
        """The files; None if the checkout itself is trusted. Raises GitHubApiError."""
        api = self._job.api
        if api is None:
            raise GitHubApiError(ApiErrorKind.REFUSED, "there is no GitHub token")
        sha = base_commit(api, self._job.base)
        return None if sha is None else CommitFiles(self._job, api, sha)
