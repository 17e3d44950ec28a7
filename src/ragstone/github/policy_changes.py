"""Finds what a pull request changes about its own gate, for the first lines of its
report: policy, golden set, settings and metrics."""

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

_MAX_VALUE_CHARACTERS = 80
_MAX_SHOWN_SETTINGS = 6
# Settings, or the beginnings of their keys, whose changes are not listed.
_LEFT_OUT_KEYS = (
    # Changes of these files have sentences of their own.
    *("golden.paths", "gate.thresholds"),
    # Nothing that is measured or required depends on these.
    *("judge.concurrency", "judge.patience_s", "judge.timeout_s"),
    *("system.concurrency", "system.version", "run.dask", "run.history", "run.out"),
    *("run.resume", "run.workers"),
)


def changes_to_the_gate(
    kind: EventKind, base_files: BaseFiles, checkout: Checkout, sentences: list[str]
) -> str | None:
    """Compare the checkout of a pull request with the files of its base, and add to
    `sentences` what it changes about the gate. For other events, do nothing.

    Returns a sentence if one of the changes keeps the run from passing, else None.
    """
    if kind not in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP):
        return None
    settings = checkout.settings
    policy = checkout.policy
    golden = checkout.golden
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
        base_hashes = _hashes(base_golden)
        hashes = _hashes(golden)
        drafts = {sample.id for sample in golden if sample.is_draft}
        phrases = in_turns(
            [rule for rule in rules if rule.startswith("accepts ")],
            setting_changes(base, _file_settings(settings, base), in_force=settings),
            [rule for rule in rules if not rule.startswith("accepts ")],
            loosened_bounds(
                _bounds(base_golden),
                _bounds(golden),
                new_ids(hashes, base_hashes),
            ),
            sample_changes(base_hashes, hashes, drafts=drafts),
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
    """The first phrase of each kind, then the second of each, and so on, so that many
    changes of one kind can't hide another kind."""
    phrases = chain.from_iterable(zip_longest(*kinds))
    return [phrase for phrase in phrases if phrase is not None]


def changes_by_a_fork(files: CommitFiles, settings: Settings, policy: Policy) -> Texts:
    """What a fork's commit, with these `files`, changes about the gate of this
    checkout, in sentences."""
    try:
        # Raises an error if GitHub doesn't know the commit, of which all files would
        # seem to be removed.
        files.list()
        fork_settings = files.settings
        rules = policy_changes(policy, files.policy())
        uncounted = (*rules, *_metric_changes(files, settings, fork_settings))
        base = _file_settings(settings, fork_settings)
        counted = setting_changes(base, fork_settings, in_force=fork_settings)
    except (GitHubApiError, RagstoneError) as error:
        return (
            f"Can't read what this pull request changes about the gate ({_reason(error)}).",
        )
    # The fork's settings applied to its run. Its policy and metrics don't: the verdict
    # uses those of this checkout.
    remarks = [f"{phrase} (not counted in this report)" for phrase in uncounted]
    phrases = in_turns(counted, remarks)
    return tuple(f"{GATE_CHANGE_PREFIX}{phrase}." for phrase in phrases)


def _metric_changes(
    files: CommitFiles, base: Settings, head: Settings
) -> Iterator[str]:
    """Phrases on the custom metrics that differ between two settings, of which one
    belongs to the commit with `files`, the other to the checkout.

    The file of a function is compared between that commit and the checkout. Raises
    GitHubApiError and ConfigError.
    """
    root = files.workspace
    folder = root / files.inside(files.checkout.system.working_directory or ".")
    paths = {}
    for name in base.metrics.keys() & head.metrics.keys():
        spec = base.metrics[name].python
        if spec is not None and spec == head.metrics[name].python:
            file = source_file(spec, folder, where=f"metrics.{name}.python")
            paths[name] = files.inside(folder / file)
    commit_copies = files.read(paths.values(), files.new_folder())
    changed = {}
    for name, path in paths.items():
        source = read_regular(root / path, within=root, limit=MAX_SOURCE_BYTES)
        digest = source_digest(source)
        copy = commit_copies.get(path)
        if copy is None or source_digest(copy.read_bytes()) != digest:
            changed[name] = path
    return metric_changes(base.metrics, head.metrics, changed)


def setting_changes(base: Settings, head: Settings, *, in_force: Settings) -> list[str]:
    """The settings in which `head` differs from `base`, in one phrase; empty if there
    are none. Settings of speed and bookkeeping are left out.

    The system's entrypoint is named first. If the value of `base` is `in_force` all the
    same, the change does not count, and is left out.
    """
    base_values = _flat_tables(base)
    head_values = _flat_tables(head)
    values_in_force = _flat_tables(in_force)
    changes = [
        f"{key} from {_shown(base_values.get(key))} to {_shown(head_values.get(key))}"
        for key in sorted(base_values.keys() | head_values.keys(), key=_sort_key)
        if base_values.get(key) not in (head_values.get(key), values_in_force.get(key))
        and not key.startswith(_LEFT_OUT_KEYS)
    ]
    return [f"changes {join_first(changes, _MAX_SHOWN_SETTINGS)}"] if changes else []


def _sort_key(key: str) -> tuple[bool, bool, str]:
    """Sorts the entrypoint first, then other settings of the system, then the rest."""
    return key != "system.entrypoint", not key.startswith("system."), key


def _flat_tables(settings: Settings) -> dict[str, object]:
    tables = {name for name in TABLES if name != METRICS}
    return dict(_flat(settings.model_dump(include=tables), ""))


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """The values in nested tables, by dotted keys that begin with `prefix`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _file_settings(settings: Settings, fallback: Settings) -> Settings:
    """The settings in the config file alone; `fallback` if the file is not valid by
    itself."""
    if settings.file is None:
        return Settings()
    return settings.file_settings or fallback


def _shown(value: object) -> str:
    match value:
        case None | ():
            text = "unset"
        case list() | tuple():
            text = ", ".join(map(str, value))
        case _:
            text = str(value)
    return clipped(text, _MAX_VALUE_CHARACTERS)


def _reason(error: Exception) -> str:
    message = error.message if isinstance(error, RagstoneError) else str(error)
    return message.rstrip(".")


def _hashes(golden: GoldenSet) -> dict[str, str]:
    return {sample.id: sample.content_hash() for sample in golden}


def _bounds(golden: GoldenSet) -> dict[str, tuple[Bound, ...]]:
    return {sample.id: sample.bounds for sample in golden}
