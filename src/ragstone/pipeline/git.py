"""git in a checkout: its commits and branches."""

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
MAX_ANCESTORS = 1_000
"""Number of commits before the current one in which a baseline is looked for."""


class GitFailed(Exception):  # noqa: N818 - an outcome to report
    """git refused; `line` is what it calls fatal, or else its last line, without
    credentials."""

    def __init__(self, arguments: tuple[str, ...], line: str) -> None:
        super().__init__(f"git {arguments[0]}: {line}")
        self.line = line


class Git(Struct, frozen=True):
    """git in `folder`, without hooks; its environment is the allow-list.

    `setting` is the setting that needs git, `timeout_s` how long it may take.
    """

    folder: Path
    environ: Mapping[str, str]
    setting: str
    timeout_s: float = 600

    def text(self, *arguments: str) -> str:
        """What git prints, without surrounding space. Raises GitFailed; ConfigError if
        there is no git."""
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
            lines = process.stderr.decode("utf-8", "replace").strip().splitlines() or [
                f"status {process.returncode}"
            ]
            line = next(
                (line for line in lines if line.startswith("fatal: ")), lines[-1]
            )
            raise GitFailed(
                arguments, _USER_IN_URL.sub("//***@", line).rstrip(".")[:300]
            )
        return process.stdout.decode("utf-8", "replace").strip()

    def text_or(self, default: str, *arguments: str) -> str:
        """What git prints, as `text`; `default` if it refuses."""
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
                hint="A baseline folder finds runs by their commit, so run the gate in a git checkout.",
            ) from None

    def ancestors(self) -> tuple[str, ...]:
        """The current commit and those before it, the newest first, as far as this
        clone has them."""
        return tuple(
            self.text("rev-list", f"--max-count={MAX_ANCESTORS}", "HEAD").split()
        )

    def branch_has_head(self, branch: str) -> bool:
        """Whether the current commit is on `branch` of the remote `origin`."""
        reference = f"refs/remotes/origin/{branch}"
        ancestor = ("merge-base", "--is-ancestor", "HEAD", reference)
        return self.text_or("no", *ancestor) == ""

    def is_shallow(self) -> bool:
        return self.text_or("", "rev-parse", "--is-shallow-repository") == "true"
