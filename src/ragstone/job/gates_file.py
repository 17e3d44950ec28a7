"""The file that lists the gates of a repository, with the paths that affect each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ragstone.config import MAX_GATES, read_toml
from ragstone.errors import ConfigError
from ragstone.golden.patterns import compiled
from ragstone.job.inputs import COMMENT_ID

_Pattern = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class _Gate(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[_Pattern, ...] = Field(default=(), max_length=200)


class GatesFile(BaseModel):
    """The content of the file. A gate without `paths` is affected by every change; `paths` at the top affect all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[_Pattern, ...] = Field(default=(), max_length=200)
    gates: dict[Annotated[str, StringConstraints(pattern=COMMENT_ID)], _Gate] = Field(
        min_length=1, max_length=MAX_GATES
    )

    def affects(self, gate: str, files: Iterable[str]) -> bool:
        """Whether a change of `files` affects `gate`, which is in the file."""
        paths = self.gates[gate].paths
        return not paths or touches((*self.paths, *paths), files)


def read_gates_file(path: Path, shown: str, *, within: Path | None = None) -> GatesFile:
    """The gates in `path`, which messages call `shown`. Raises ConfigError."""
    try:
        document = read_toml(path, within=within)
    except ConfigError as error:
        raise ConfigError(error.message, where=shown, hint=error.hint or "The input 'gates-file' names it.") from None
    try:
        found = GatesFile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        hint = 'Write a table for each gate: [gates.NAME] with paths = ["…"].'
        raise ConfigError(f"'{key}': {first['msg']}.", where=shown, hint=hint) from None
    for pattern in (*found.paths, *(path for gate in found.gates.values() for path in gate.paths)):
        if any(sign in pattern for sign in "?[]{}\\"):
            raise ConfigError(
                f"'{pattern[:80]}' is not a path that can be matched.",
                where=shown,
                hint="Use `*` within a folder, `**` across folders, and `!` at the start to exclude.",
            )
    return found


def touches(patterns: Sequence[str], files: Iterable[str]) -> bool:
    """Whether one of `files` matches `patterns`: the last pattern that fits a file decides, and ``!`` excludes.

    ``*`` stands for any characters but ``/``, ``**`` for any characters, and a folder stands for all that is in it.
    """
    rules = [(not one.startswith("!"), compiled(_expression(one.removeprefix("!")))) for one in patterns]
    for file in files:
        counts = False
        for includes, rule in rules:
            if includes is not counts and rule.search(file) is not None:
                counts = includes
        if counts:
            return True
    return False


def _expression(pattern: str) -> str:
    path = pattern.removeprefix("./").removeprefix("/")
    return rf"(?s)\A{_PART.sub(_translated, path.rstrip('/') or path)}(?:/.*)?\z"


_PART = re.compile(r"\*\*/|\*\*|\*|.", re.DOTALL)
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


def _translated(part: re.Match[str]) -> str:
    char = part[0]
    if char in _WILDCARDS:
        return _WILDCARDS[char]
    return char if char.isalnum() or char in "/_-" or ord(char) > 127 else f"\\x{{{ord(char):x}}}"
