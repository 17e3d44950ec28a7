"""Finds what a pull request changes about its own gate, for the first lines of its
report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import zip_longest
from typing import TypeVar

from pydantic import SecretStr

from ragstone.errors import RagstoneError
from ragstone.files import read_regular
from ragstone.formatting import clipped, some
from ragstone.gate.accepted import ACCEPTED_FILE
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_changes import (
    loosened_bounds,
    metric_changes,
    moved_must_pass,
    policy_changes,
    sample_changes,
)
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.event import EventKind
from ragstone.github.checkout import Checkout
from ragstone.github.commit_files import BaseFiles, BaseUnreadable, CommitFiles
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Bound, GoldenSet
from ragstone.report.summary import SUBJECTS
from ragstone.settings.settings import METRICS, TABLES, Settings
from ragstone.system.functions import MAX_SOURCE_BYTES, source_digest, source_file

_Value = TypeVar("_Value")
_PATTERN = "*?["
_MAX_SHOWN = 80
_MAX_SETTINGS = 6
_SAID_ELSEWHERE = (
    *("golden.paths", "gate.thresholds"),
    # Speed, place and bookkeeping
    *(
        "judge.concurrency",
        "judge.patience_s",
        "judge.refresh",
        "judge.timeout_s",
        "system.concurrency",
    ),
    *(
        "system.version",
        "run.dask",
        "run.history",
        "run.out",
        "run.resume",
        "run.workers",
    ),
)
"""Settings whose change is another sentence, or changes nothing that is measured or
required."""


@dataclass(frozen=True, slots=True)
class GateChanges:
    """Sentences on what a change changes about its gate; `unproven` says which of it
    keeps the run from passing."""

    sentences: tuple[str, ...] = ()
    unproven: str | None = None


def changes_to_the_gate(
    kind: EventKind,
    base_files: BaseFiles,
    checkout: Checkout,
) -> GateChanges:
    """What a pull request changes about policy, golden set and settings, from the files
    of its base. Nothing for other events."""
    if kind not in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP):
        return GateChanges()
    subject = SUBJECTS[0 if kind is EventKind.PULL_REQUEST else 1]
    settings, policy, golden = checkout.settings.value, checkout.policy, checkout.golden
    unproven = None
    try:
        files = base_files.commit
        if files is None:
            return _unread("the checkout is the base itself")
        commit = Commit(files, settings)
        base = files.settings
        rules = policy_changes(commit.policy(base), policy)
        before = commit.samples(base)
        moved = moved_must_pass(policy, before, golden)
        if moved:
            unproven = f"Not proven: another question has the id of a must-pass one ({some(moved)})."
        then, now = _hashes(before), _hashes(golden)
        phrases = in_turns(
            [rule for rule in rules if rule.startswith("accepts ")],
            setting_changes(base, _own(settings, base), in_force=settings),
            [rule for rule in rules if not rule.startswith("accepts ")],
            loosened_bounds(_bounds(before), _bounds(golden), new_ids(now, then)),
            sample_changes(
                then, now, drafts={sample.id for sample in golden if sample.draft}
            ),
            commit.metric_changes(base, settings),
        )
    except (BaseUnreadable, GitHubApiError, RagstoneError) as error:
        why = error.message if isinstance(error, RagstoneError) else str(error)
        return _unread(why, unproven)
    return GateChanges(tuple(f"{subject}{phrase}." for phrase in phrases), unproven)


def in_turns(*kinds: Sequence[str]) -> list[str]:
    """The first of each kind, then the second of each, and so on: many changes of one
    kind hide no other kind."""
    return [
        phrase for turn in zip_longest(*kinds) for phrase in turn if phrase is not None
    ]


def changes_by_a_fork(
    files: CommitFiles, settings: Settings, policy: Policy
) -> tuple[str, ...]:
    """Sentences on what a fork's commit changes, compared with the `policy` of this
    checkout, which decides."""
    try:
        files.list()  # check that GitHub knows the commit: else all of its files would seem removed
        commit = Commit(files, settings)
        fork_settings = files.settings
        rules = policy_changes(policy, commit.policy(fork_settings))
        decided = (*rules, *commit.metric_changes(settings, fork_settings))
        measured = setting_changes(_own(settings, fork_settings), fork_settings)
    except (GitHubApiError, RagstoneError) as error:
        return (
            f"Can't read what this pull request changes about the gate ({error.message.rstrip('.')}).",
        )
    # The verdict uses the files of this checkout, so no change of the policy counts
    # here; but the fork ran its system.
    uncounted = [f"{phrase} (not counted in this report)" for phrase in decided]
    return tuple(f"{SUBJECTS[0]}{phrase}." for phrase in in_turns(measured, uncounted))


class Commit:
    """The policy, metrics and golden set of a commit with `files`; `checkout` are the
    settings of the checkout."""

    def __init__(self, files: CommitFiles, checkout: Settings) -> None:
        self._files = files
        self._checkout = checkout

    def policy(self, settings: Settings) -> Policy:
        """Its policy, with accepted drops. Raises GitHubApiError and ConfigError."""
        files = self._files
        own = self._in_force(
            "gate.thresholds", settings.gate.thresholds, self._checkout.gate.thresholds
        )
        path = files.inside(own or POLICY_FILE)
        folder = files.new_folder()
        present = files.read(
            [path.as_posix(), path.with_name(ACCEPTED_FILE).as_posix()], folder
        )
        if path.as_posix() in present:
            return load_policy(
                present[path.as_posix()], known_metrics=None, calibration=False
            )
        return default_policy(folder / files.place)

    def metric_changes(self, base: Settings, head: Settings) -> tuple[str, ...]:
        """The metrics of the project that differ between two settings, one of them
        those of this commit.

        A function's file is compared with that of the checkout. Raises GitHubApiError
        and ConfigError.
        """
        files = self._files
        folder = files.inside(self._checkout.system.working_directory or ".")
        paths: dict[str, str] = {}
        for name in base.metrics.keys() & head.metrics.keys():
            spec = base.metrics[name].python
            if spec is not None and spec == head.metrics[name].python:
                file = source_file(
                    spec, files.workspace / folder, where=f"metrics.{name}.python"
                )
                paths[name] = files.inside(files.workspace / folder / file).as_posix()
        of_commit = files.read(sorted({*paths.values()})) if paths else {}
        changed: dict[str, str] = {}
        for name, path in paths.items():
            own = read_regular(
                files.workspace / path, within=files.workspace, limit=MAX_SOURCE_BYTES
            )
            if path not in of_commit or source_digest(
                of_commit[path].read_bytes()
            ) != source_digest(own):
                changed[name] = path
        return metric_changes(base.metrics, head.metrics, changed)

    def samples(self, settings: Settings) -> GoldenSet:
        """The samples of its golden set that count. Raises GitHubApiError and
        GoldenSetError."""
        own = self._in_force(
            "golden.paths", settings.golden.paths, self._checkout.golden.paths
        )
        paths = [self._files.inside(path).as_posix() for path in own]
        names = paths
        if any(sign in path for path in paths for sign in _PATTERN):
            # This may be more than the patterns match: they are applied below as usual.
            names = [
                name
                for name in self._files.list()
                if any(fnmatch(name, path) for path in paths)
            ]
        folder = self._files.new_folder()
        if not names or not self._files.read(names, folder):
            return GoldenSet(())
        golden = load_golden_set(
            paths,
            root=folder,
            columns=settings.golden.columns or None,
            limit=self._checkout.golden.limit,
            history=settings.golden.history,
        )
        return golden.only(lambda sample: not sample.draft)

    def _in_force(self, key: str, of_commit: _Value, of_checkout: _Value) -> _Value:
        """The value of a setting: a flag, input or environment variable applies to both
        commits."""
        return (
            of_commit
            if key in self._checkout.from_file or not of_checkout
            else of_checkout
        )


def setting_changes(
    base: Settings, head: Settings, *, in_force: Settings | None = None
) -> list[str]:
    """What `head` sets otherwise of what is measured, how, and against what; not of how
    fast it is. One phrase at most.

    The system's entrypoint is named first. A value that does not count, because that of
    `base` is `in_force`, is left out.
    """
    changes = []
    tables = [name for name in TABLES if name != METRICS]
    for table in sorted(tables, key=lambda name: name != "system"):
        then, now = _flat_table(base, table), _flat_table(head, table)
        used = now if in_force is None else _flat_table(in_force, table)
        for key in sorted(
            then.keys() | now.keys(), key=lambda key: (key != "system.entrypoint", key)
        ):
            changed = then.get(key) != now.get(key) and then.get(key) != used.get(key)
            if changed and not key.startswith(_SAID_ELSEWHERE):
                changes.append(
                    f"{key} from {_shown(then.get(key))} to {_shown(now.get(key))}"
                )
    return [f"changes {some(changes, _MAX_SETTINGS)}"] if changes else []


def _flat_table(settings: Settings, table: str) -> dict[str, object]:
    return dict(_flat(getattr(settings, table).model_dump(), f"{table}."))


def _own(settings: Settings, otherwise: Settings) -> Settings:
    """Those of the config file alone; `otherwise` for a file that is not valid by
    itself."""
    if settings.file is None:
        return Settings()
    return settings.of_file or otherwise


def _flat(table: Mapping[str, object], before: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _shown(value: object) -> str:
    if value is None or value == ():
        return "nothing"
    if isinstance(value, SecretStr):
        return "a secret"
    return clipped(
        ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value),
        _MAX_SHOWN,
    )


def _unread(why: str, unproven: str | None = None) -> GateChanges:
    sentence = (
        f"Can't compare the gate's files with the base branch ({why.rstrip('.')})."
    )
    return GateChanges((sentence,), unproven)


def _hashes(golden: GoldenSet) -> dict[str, str]:
    return {sample.id: sample.content_hash() for sample in golden}


def _bounds(golden: GoldenSet) -> dict[str, tuple[Bound, ...]]:
    return {sample.id: sample.bounds for sample in golden}
