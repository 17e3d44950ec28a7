"""The gates of a repository that speak with one voice: who they are, and which of them a change affects.

They are listed in one file, with the paths that affect each. A pull request could silence a gate by changing that
file, so the base's version counts: a gate is affected by the paths there, by those in the checkout, and by any change
of its paths. What it reads itself affects it too, whether it is among them or not. How many gates share the error rate
depends on the base's version alone, and on the files that differ between two commits, which GitHub compares. Neither
depends on scores, and every job finds the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.ci.github.base_files import read_base_files
from ragstone.ci.github.client import GitHubApi, GitHubApiError
from ragstone.ci.github.reviewed import ReviewedBase, proposed_change
from ragstone.config.load import read_toml
from ragstone.config.settings import MAX_GATES, METRICS, TABLES, Settings
from ragstone.errors import ConfigError, RagstoneError, parse_errors, suggestion
from ragstone.formatting import some
from ragstone.gate.accepted import ACCEPTED_FILE
from ragstone.gate.policy import Policy
from ragstone.golden.sample import GoldenSet
from ragstone.job.annotations import Places
from ragstone.job.changed import Change, UnknownChangeError, read_change
from ragstone.job.inputs import COMMENT_ID, ActionInputs, CommentMode
from ragstone.report.templates import FOLDER

_MAX_PATH = 1_000


@dataclass(frozen=True, slots=True)
class GatesOfJob:
    """All gates, and this job's part among them.

    `names` maps each gate to whether the checkout still has it. `sharing` is the number of gates that share the error
    rate. `note` is a sentence for the top of the report, if there is anything to say. `change` is None if all gates
    count as affected.
    """

    file: str
    content: GatesFile
    own: str
    names: Mapping[str, bool]
    sharing: int
    affected: bool = True
    note: str | None = None
    change: Change | None = None

    def reading(self, paths: Iterable[str]) -> GatesOfJob:
        """These, where the gate reads the files or folders `paths`, relative to the repository."""
        if self.affected or self.change is None or not any(self.change.touches_path(path) for path in paths):
            return self
        return replace(self, affected=True)


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
        return narrowed(every, api, *proposed_change(api, base), folder, workspace)
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


def narrowed(every: GatesOfJob, api: GitHubApi, base: str, head: str, folder: Path, workspace: Path) -> GatesOfJob:
    """`every` for the change from commit `base` to commit `head`: all gates are affected if that can't be known."""
    here, own = every.content, every.own
    try:
        there = _at(api, base, every.file, folder) or here
        change = read_change(api, base, head, workspace)
    except (UnknownChangeError, GitHubApiError, ConfigError) as unknown:
        return _all_affected(every, unknown.message if isinstance(unknown, RagstoneError) else str(unknown))
    concerned = {name for name in there.gates if there.affects(name, change)}
    edited = own in there.gates and here.paths_of(own) != there.paths_of(own)
    # Paths that the change itself adds let a gate run, but leave the others their part of the error rate.
    return replace(
        every,
        names={**dict.fromkeys(there.gates, False), **every.names},
        affected=own not in there.gates or own in concerned or edited or here.affects(own, change),
        sharing=len(concerned | {own}),
        note=f"This change edits which paths affect this gate in {every.file}." if edited else None,
        change=change,
    )


def files_read(settings: Settings, inputs: ActionInputs, places: Places) -> Iterator[str]:
    """The files and folders in the checkout that the values of a gate's settings and inputs name, if they exist.

    Each value counts that could be a path, a word of a command, or the module of a function.
    """
    values = list(_texts({table: getattr(settings, table).model_dump() for table in TABLES if table != METRICS}))
    values += _texts([metric.model_dump() for metric in settings.metrics.values()])
    values += [*inputs.requirements, inputs.setup, f"{FOLDER}/"]
    words = {word for value in values for text in (value, value.partition(":")[2]) for word in (text, *text.split())}
    for word in sorted(words):
        module = word.rpartition(":")[0].replace(".", "/")
        for path in (word, *(f"{module}{end}" for end in (".py", "/__init__.py") if module)):
            if not path or len(path) > _MAX_PATH or "\0" in path:
                continue
            # A link is read, and what it leads to.
            for inside in (places.within(path), os.path.relpath(places.root / path, places.workspace)):
                if inside not in (None, ".") and not inside.startswith(".."):
                    yield Path(inside).as_posix()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)


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
    missing = [
        file for file in dict.fromkeys(inside) if not gates.content.affects(gates.own, Change(frozenset({file})))
    ]
    if missing:
        raise ConfigError(
            f"the gate '{gates.own}' depends on {some(missing, 3)}, but its paths don't include "
            f"{'it' if len(missing) == 1 else 'them'}.",
            where=gates.file,
            hint=f"Add such paths to [gates.{gates.own}], or to `paths` at the top for all gates.",
        )


def _all_affected(every: GatesOfJob, why: str) -> GatesOfJob:
    return replace(every, note=f"Every gate counts as affected by this change: {why.rstrip('.')}.")


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

    def paths_of(self, gate: str) -> tuple[str, ...]:
        """The patterns of `gate`, which is in the file; none if every change affects it."""
        paths = self.gates[gate].paths
        return (*self.paths, *paths) if paths else ()

    def affects(self, gate: str, change: Change) -> bool:
        """Whether `change` affects `gate`, which is in the file."""
        paths = self.paths_of(gate)
        return not paths or change.touches(paths)


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
