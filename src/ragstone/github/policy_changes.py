"""Finds what a pull request changes about its own gate, for the first lines of its
report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest

from ragstone.errors import RagstoneError
from ragstone.files import read_regular
from ragstone.formatting import clipped, join_first
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy
from ragstone.gate.policy_changes import (
    loosened_bounds,
    metric_changes,
    moved_must_pass,
    policy_changes,
    sample_changes,
)
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.event import EventKind
from ragstone.github.checkout import Checkout
from ragstone.github.commit_files import BaseFiles, CommitFiles
from ragstone.golden.sample import Bound, GoldenSet, Texts
from ragstone.report.summary import GATE_CHANGE_PREFIX
from ragstone.settings.settings import METRICS, TABLES, Settings
from ragstone.system.functions import MAX_SOURCE_BYTES, source_digest, source_file

_MAX_SHOWN = 80
_MAX_SETTINGS = 6
_SAID_ELSEWHERE = (
    *("golden.paths", "gate.thresholds"),
    # Speed, place and bookkeeping
    *("judge.concurrency", "judge.patience_s", "judge.timeout_s"),
    *("system.concurrency", "system.version", "run.dask", "run.history", "run.out"),
    *("run.resume", "run.workers"),
)
"""Settings whose change is another sentence, or changes nothing that is measured or
required."""


def changes_to_the_gate(
    kind: EventKind, base_files: BaseFiles, checkout: Checkout, sentences: list[str]
) -> str | None:
    """Add to `sentences` what a pull request changes about policy, golden set and
    settings, from the files of its base. Nothing for other events.

    Returns what of it keeps the run from passing, in a short sentence.
    """
    if kind not in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP):
        return None
    settings, policy, golden = checkout.settings, checkout.policy, checkout.golden
    unproven = None
    try:
        files = base_files.commit
        if files is None:  # the checkout is the base itself
            return None
        base = files.settings
        rules = policy_changes(files.policy(), policy)
        base_golden = files.samples()
        moved = moved_must_pass(policy, base_golden, golden)
        if moved:
            unproven = f"Not proven: another question has the id of a must-pass one ({join_first(moved)})."
        then, now = _hashes(base_golden), _hashes(golden)
        drafts = {sample.id for sample in golden if sample.is_draft}
        phrases = in_turns(
            [rule for rule in rules if rule.startswith("accepts ")],
            setting_changes(base, _of_file(settings, base), in_force=settings),
            [rule for rule in rules if not rule.startswith("accepts ")],
            loosened_bounds(_bounds(base_golden), _bounds(golden), new_ids(now, then)),
            sample_changes(then, now, drafts=drafts),
            _metric_changes(files, base, settings),
        )
    except (GitHubApiError, RagstoneError) as error:
        sentences.append(
            f"Can't compare the gate's files with the base branch ({_reason(error)})."
        )
    else:
        sentences += [f"{GATE_CHANGE_PREFIX}{phrase}." for phrase in phrases]
    return unproven


def in_turns(*kinds: Iterable[str]) -> list[str]:
    """The first of each kind, then the second of each, and so on: many changes of one
    kind hide no other kind."""
    phrases = chain.from_iterable(zip_longest(*kinds))
    return [phrase for phrase in phrases if phrase is not None]


def changes_by_a_fork(files: CommitFiles, settings: Settings, policy: Policy) -> Texts:
    """Sentences on what a fork's commit changes, compared with the `policy` of this
    checkout, which decides."""
    try:
        files.list()  # check that GitHub knows the commit: else all of its files would seem removed
        fork_settings = files.settings
        rules = policy_changes(policy, files.policy())
        decided = (*rules, *_metric_changes(files, settings, fork_settings))
        of_file = _of_file(settings, fork_settings)
        measured = setting_changes(of_file, fork_settings, in_force=fork_settings)
    except (GitHubApiError, RagstoneError) as error:
        return (
            f"Can't read what this pull request changes about the gate ({_reason(error)}).",
        )
    # The verdict uses the files of this checkout, so no change of the policy counts
    # here; but the fork ran its system.
    uncounted = [f"{phrase} (not counted in this report)" for phrase in decided]
    return tuple(
        f"{GATE_CHANGE_PREFIX}{phrase}." for phrase in in_turns(measured, uncounted)
    )


def _metric_changes(
    files: CommitFiles, base: Settings, head: Settings
) -> Iterator[str]:
    """The metrics of the project that differ between two settings, one of them those of
    the commit with `files`.

    A function's file is compared with that of the checkout. Raises GitHubApiError and
    ConfigError.
    """
    root = files.workspace
    folder = root / files.inside(files.checkout.system.working_directory or ".")
    paths = {}
    for name in base.metrics.keys() & head.metrics.keys():
        spec = base.metrics[name].python
        if spec is not None and spec == head.metrics[name].python:
            file = source_file(spec, folder, where=f"metrics.{name}.python")
            paths[name] = files.inside(folder / file)
    of_commit = files.read(paths.values(), files.new_folder())
    changed = {}
    for name, path in paths.items():
        own = read_regular(root / path, within=root, limit=MAX_SOURCE_BYTES)
        copy = of_commit.get(path)
        if copy is None or source_digest(copy.read_bytes()) != source_digest(own):
            changed[name] = path
    return metric_changes(base.metrics, head.metrics, changed)


def setting_changes(base: Settings, head: Settings, *, in_force: Settings) -> list[str]:
    """What `head` sets otherwise of what is measured, how, and against what; not of how
    fast it is. One phrase at most.

    The system's entrypoint is named first. A value that does not count, because that of
    `base` is `in_force`, is left out.
    """
    then = _flat_tables(base)
    now = _flat_tables(head)
    used = _flat_tables(in_force)
    changes = [
        f"{key} from {_shown(then.get(key))} to {_shown(now.get(key))}"
        for key in sorted(then.keys() | now.keys(), key=_by_weight)
        if then.get(key) not in (now.get(key), used.get(key))
        and not key.startswith(_SAID_ELSEWHERE)
    ]
    return [f"changes {join_first(changes, _MAX_SETTINGS)}"] if changes else []


def _by_weight(key: str) -> tuple[bool, bool, str]:
    return key != "system.entrypoint", not key.startswith("system."), key


def _flat_tables(settings: Settings) -> dict[str, object]:
    tables = {name for name in TABLES if name != METRICS}
    return dict(_flat(settings.model_dump(include=tables), ""))


def _flat(table: Mapping[str, object], before: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _of_file(settings: Settings, otherwise: Settings) -> Settings:
    """Those of the config file alone; `otherwise` for a file that is not valid by
    itself."""
    if settings.file is None:
        return Settings()
    return settings.file_settings or otherwise


def _shown(value: object) -> str:
    match value:
        case None | ():
            text = "nothing"
        case list() | tuple():
            text = ", ".join(map(str, value))
        case _:
            text = str(value)
    return clipped(text, _MAX_SHOWN)


def _reason(error: Exception) -> str:
    why = error.message if isinstance(error, RagstoneError) else str(error)
    return why.rstrip(".")


def _hashes(golden: GoldenSet) -> dict[str, str]:
    return {sample.id: sample.content_hash() for sample in golden}


def _bounds(golden: GoldenSet) -> dict[str, tuple[Bound, ...]]:
    return {sample.id: sample.bounds for sample in golden}
