"""Runs git in a checkout, to learn about its commits and branches."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.system.environment import child_environment

_USER_IN_URL = re.compile(r"//[^/@\s]*@")
_MAX_LINE_CHARACTERS = 300

MAX_ANCESTORS = 1_000
"""How many commits before the current one are searched for a baseline."""


class GitFailed(Exception):  # noqa: N818 - an outcome to report
    """A git command failed. `line` is its fatal error or else the last line of its
    errors, without credentials."""

    def __init__(self, arguments: tuple[str, ...], line: str) -> None:
        super().__init__(f"git {arguments[0]}: {line}")
        self.line = line


class Git(Struct, frozen=True):
    """git in a folder. It runs without hooks, and gets only the environment variables
    that any system under test gets."""

    folder: Path
    environ: Mapping[str, str]
    setting: str
    """The setting that needs git, for messages."""
    timeout_s: float = 600

    def text(self, *arguments: str) -> str:
        """The output of a git command, without surrounding space. Raises GitFailed, and
        ConfigError if git is not installed."""
        environ = child_environment((), self.environ)
        try:
            process = subprocess.run(  # noqa: S603
                ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],  # noqa: S607 - git is where PATH says
                cwd=self.folder,
                env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except FileNotFoundError:
            raise ConfigError(
                "git was not found on PATH.", where=self.setting
            ) from None
        except subprocess.TimeoutExpired:
            raise GitFailed(
                arguments, f"it took more than {self.timeout_s:g} s"
            ) from None
        if process.returncode != 0:
            lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
            lines = lines or [f"status {process.returncode}"]
            fatal = (line for line in lines if line.startswith("fatal: "))
            line = _USER_IN_URL.sub("//***@", next(fatal, lines[-1]))
            raise GitFailed(arguments, line.rstrip(".")[:_MAX_LINE_CHARACTERS])
        return process.stdout.decode("utf-8", "replace").strip()

    def text_or(self, default: str, *arguments: str) -> str:
        """The output of a git command, or `default` if it fails."""
        try:
            return self.text(*arguments)
        except GitFailed:
            return default

    def head(self) -> str:
        """The current commit. Raises ConfigError."""
        try:
            return self.text("rev-parse", "--verify", "HEAD^{commit}")
        except GitFailed as failed:
            raise ConfigError(
                f"{self.folder.absolute()} is not a checkout with a commit: {failed}.",
                where=self.setting,
                hint="Run the gate in a git checkout: the runs in a baseline folder are found by their commit.",
            ) from None

    def ancestors(self) -> tuple[str, ...]:
        """The current commit and those before it, the newest first, as far as this
        clone has them."""
        commits = self.text("rev-list", f"--max-count={MAX_ANCESTORS}", "HEAD")
        return tuple(commits.split())

    def branch_has_head(self, branch: str) -> bool:
        """Whether the current commit is on `branch` of the remote `origin`."""
        reference = f"refs/remotes/origin/{branch}"
        # It prints nothing, and fails if the commit is not on the branch.
        command = ("merge-base", "--is-ancestor", "HEAD", reference)
        return self.text_or("no", *command) == ""

    def is_shallow(self) -> bool:
        """Whether this is a shallow clone, which lacks older commits."""
        return self.text_or("", "rev-parse", "--is-shallow-repository") == "true"
