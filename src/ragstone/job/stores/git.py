"""git in the checkout: which commits came before, and notes on them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.system.environment import child_environment

_TIMEOUT_S = 300
_CREDENTIALS = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO")
_USER_IN_URL = re.compile(r"//[^/@\s]*@")
MAX_ANCESTORS = 1_000
"""Number of commits before the current one in which a baseline is looked for."""


class GitFailed(Exception):  # noqa: N818 - an outcome to report
    """git refused; the message is its last line, without credentials."""


@dataclass(frozen=True, slots=True)
class Git:
    """git in `folder`, without hooks; its environment is the allow-list and git's own credentials."""

    folder: Path
    environ: Mapping[str, str]

    def run(self, *arguments: str, given: bytes = b"") -> bytes:
        """What git prints. Raises GitFailed; ConfigError if there is no git."""
        environ = child_environment((), self.environ) | {
            name: self.environ[name] for name in _CREDENTIALS if name in self.environ
        }
        try:
            found = subprocess.run(  # noqa: S603
                ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],  # noqa: S607 - git is where PATH says
                cwd=self.folder,
                env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
                input=given,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise ConfigError("git was not found on PATH.", where="gate.baseline_store") from None
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {arguments[0]} took more than {_TIMEOUT_S} s") from None
        if found.returncode != 0:
            lines = found.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {found.returncode}"]
            raise GitFailed(f"git {arguments[0]}: {_USER_IN_URL.sub('//***@', lines[-1])[:300]}")
        return found.stdout

    def text(self, *arguments: str) -> str:
        """What git prints, as text without surrounding space."""
        return self.run(*arguments).decode("utf-8", "replace").strip()

    def head(self) -> str:
        """The current commit. Raises ConfigError."""
        try:
            return self.text("rev-parse", "--verify", "HEAD^{commit}")
        except GitFailed as failed:
            raise ConfigError(
                f"{self.folder.absolute()} is not a checkout with a commit: {failed}.",
                where="gate.baseline_store",
                hint="A baseline store finds runs by their commit, so run the gate in a git checkout.",
            ) from None

    def ancestors(self) -> tuple[str, ...]:
        """The current commit and those before it, the newest first, as far as this clone has them."""
        return tuple(self.text("rev-list", f"--max-count={MAX_ANCESTORS}", "HEAD").split())

    def branch(self) -> str | None:
        """The branch that is checked out, if any."""
        try:
            return self.text("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:
            return None

    def is_shallow(self) -> bool:
        return self.text("rev-parse", "--is-shallow-repository") == "true"
