"""The gates of a repository that speak with one voice: who they are, and which of them a change affects.

They are listed in one file, with the paths that affect each. A pull request could silence a gate by changing that
file, so the base's version counts: a gate is affected by the paths there and by those in the checkout, so that a change
can add paths but not take any away. How many gates share the error rate depends on the base's version alone, and on the
files that differ between two commits, which GitHub compares. Neither depends on scores, and every job finds the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.ci.github.base_files import MAX_LISTED, changed_files, read_base_files
from ragstone.ci.github.client import GitHubApi, GitHubApiError
from ragstone.ci.github.reviewed import ReviewedBase, proposed_change
from ragstone.config.load import read_toml
from ragstone.config.settings import MAX_GATES, Settings
from ragstone.errors import ConfigError, RagstoneError, parse_errors, suggestion
from ragstone.formatting import some
from ragstone.gate.accepted import ACCEPTED_FILE
from ragstone.gate.policy import Policy
from ragstone.golden.patterns import compiled
from ragstone.golden.sample import GoldenSet
from ragstone.job.annotations import Places
from ragstone.job.inputs import COMMENT_ID, ActionInputs, CommentMode


@dataclass(frozen=True, slots=True)
class GatesOfJob:
    """All gates, and this job's part among them.

    `names` maps each gate to whether the checkout still has it. `sharing` is the number of gates that share the error
    rate. `note` is a sentence for the top of the report, if there is anything to say.
    """

    file: str
    content: GatesFile
    own: str
    names: Mapping[str, bool]
    sharing: int
    affected: bool = True
    note: str | None = None


def gates_of_job(
    inputs: ActionInputs, base: ReviewedBase, api: GitHubApi | None, *, workspace: Path, folder: Path
) -> GatesOfJob | None:
    """The gates in the file that the input `gates-file` names, None without it; `folder` is for the base's version.

    Raises ConfigError.
    """
    every = every_gate(inputs, workspace)
    if every is None:
        return None
    if not base.is_of_change:
        return every
    if api is None:
        return _all_affected(every, "there is no GitHub token")
    try:
        return narrowed(every, api, *proposed_change(api, base), folder)
    except GitHubApiError as api_error:
        return _all_affected(every, str(api_error))


def every_gate(inputs: ActionInputs, workspace: Path) -> GatesOfJob | None:
    """The gates in the file that the input `gates-file` names, all of them affected. Raises ConfigError."""
    file, own = inputs.gates_file, inputs.comment_id
    if file is None:
        return None
    if inputs.comment not in (CommentMode.ALWAYS, CommentMode.OFF):
        raise ConfigError(
            f"the gates share one comment, so it can't depend on this one (found '{inputs.comment}').",
            where="input 'comment'",
            hint="Use `always` or `off`.",
        )
    here = read_gates_file(workspace / file, file, within=workspace)
    if own not in here.gates:
        raise ConfigError(
            f"'{own}' is not one of the gates in {file}.",
            where="input 'comment-id'",
            hint=suggestion(own, here.gates) or f"Add a table [gates.{own}] there.",
        )
    return GatesOfJob(file, here, own, dict.fromkeys(here.gates, True), len(here.gates))


def narrowed(every: GatesOfJob, api: GitHubApi, base: str, head: str, folder: Path) -> GatesOfJob:
    """`every` for the change from commit `base` to commit `head`: all gates are affected if that can't be known."""
    here, own = every.content, every.own
    try:
        there = _at(api, base, every.file, folder) or here
        files = changed_files(api, base, head)
        if files is None:
            raise _UnknownError(f"it has {MAX_LISTED} files or more, and GitHub lists no more")
    except (_UnknownError, GitHubApiError, ConfigError) as unknown:
        return _all_affected(every, unknown.message if isinstance(unknown, RagstoneError) else str(unknown))
    concerned = {name for name in there.gates if there.affects(name, files)}
    # Paths that the change itself adds let a gate run, but leave the others their part of the error rate.
    return replace(
        every,
        names={**dict.fromkeys(there.gates, False), **every.names},
        affected=own not in there.gates or own in concerned or here.affects(own, files),
        sharing=len(concerned | {own}),
    )


def require_own_paths(
    gates: GatesOfJob, settings: Settings, policy: Policy, golden: GoldenSet, workflow: str | None, places: Places
) -> None:
    """Raise ConfigError if a change to what this gate itself consists of would not affect it.

    That is its config, policy, golden set and `workflow`, whose path is relative to the repository.
    """
    if not gates.content.gates[gates.own].paths:
        return
    files = [str(settings.file)] if settings.file is not None else []
    if policy.file is not None:
        files.append(policy.file)
        files += [str(Path(policy.file).with_name(ACCEPTED_FILE))] if policy.accepted else []
    files += sorted({sample.origin.file for sample in golden if sample.origin is not None})
    inside = [found for file in files if (found := places.within(file)) is not None]
    inside += [workflow] if workflow is not None else []
    missing = [file for file in dict.fromkeys(inside) if not gates.content.affects(gates.own, [file])]
    if missing:
        raise ConfigError(
            f"the gate '{gates.own}' depends on {some(missing, 3)}, but its paths don't include "
            f"{'it' if len(missing) == 1 else 'them'}.",
            where=gates.file,
            hint=f"Add such paths to [gates.{gates.own}], or to `paths` at the top for all gates.",
        )


def _all_affected(every: GatesOfJob, why: str) -> GatesOfJob:
    return replace(every, note=f"Every gate counts as affected by this change: {why.rstrip('.')}.")


class _UnknownError(Exception):
    pass


def _at(api: GitHubApi, sha: str, file: str, folder: Path) -> GatesFile | None:
    found = read_base_files(api, sha, [file], folder)
    return read_gates_file(found[file], f"{file} in the base branch") if file in found else None


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
    with parse_errors(shown, "not valid", hint='Write a table for each gate: [gates.NAME] with paths = ["…"].'):
        found = GatesFile.model_validate(document)
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
