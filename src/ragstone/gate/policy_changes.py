"""Differences between two policies, so that a pull request never changes the policy
silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ragstone.formatting import clipped, counted, some
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import LIMITS, MetricRule
from ragstone.gate.source import KeyPath
from ragstone.golden.sample import Bound, Sample
from ragstone.settings.settings import CustomMetric

_CLIP = 120


def policy_changes(base: Policy, head: Policy) -> tuple[str, ...]:
    """The changes from `base` to `head`: verb phrases such as "changes
    metrics.faithfulness.min from 0.85 to 0.8".

    Accepted drops come first, then changes that weaken the gate, then the rest.
    Defaults count as if they were written, so that removing a policy file shows which
    rules no longer apply.
    """
    base_keys = _keys(base)
    head_keys = _keys(head)
    head_rules = {path[:-1] for path in head_keys}
    removed = {path[:-1] for path in base_keys} - head_rules
    weaker = [f"removes the rule {_name(rule)}" for rule in sorted(removed)]
    neutral: list[str] = []
    for path in sorted(base_keys.keys() | head_keys.keys()):
        base_value = base_keys.get(path)
        head_value = head_keys.get(path)
        if base_value == head_value or path[:-1] in removed:
            continue
        phrase = _phrase(path, base_value, head_value)
        if _is_weaker(path[-1], base_value, head_value):
            weaker.append(phrase)
        else:
            neutral.append(phrase)
    return (*_accepted(base, head), *weaker, *neutral)


def sample_changes(
    base: Mapping[str, str], head: Mapping[str, str], *, drafts: Collection[str] = ()
) -> tuple[str, ...]:
    """The samples of the golden set `base` that `head` removes, changes or turns into
    `drafts` (ids in `head`).

    `base` and `head` map ids to content hashes; `base` has only the samples that count.
    """
    renamed = new_ids(head, base)
    taken = set(renamed.values())
    drafted: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    for sample_id, content in base.items():
        if renamed.get(sample_id, sample_id) in drafts:
            drafted.append(sample_id)
        if sample_id in renamed:
            continue
        if sample_id not in head or sample_id in taken:
            removed.append(sample_id)
        elif content != head[sample_id]:
            changed.append(sample_id)
    phrases = {
        "turns {} into drafts, which count in no check": drafted,
        "removes {} from the golden set": removed,
        "changes {} in the golden set": changed,
        "gives new ids to {} of the golden set": list(renamed),
    }
    return tuple(
        f"{phrase.format(counted(len(samples), 'sample'))} ({some(samples)})"
        for phrase, samples in phrases.items()
        if samples
    )


def loosened_bounds(
    base: Mapping[str, Iterable[Bound]],
    head: Mapping[str, Iterable[Bound]],
    renamed: Mapping[str, str],
) -> tuple[str, ...]:
    """The floors and ceilings of samples in `base` that `head` loosens or removes.

    Both are by id; `renamed` has the ids in `head` of samples that have another one
    there.
    """
    loosened = []
    for sample_id, bounds in sorted(base.items()):
        head_id = renamed.get(sample_id, sample_id)
        if head_id not in head:
            continue
        head_bounds = {(metric, key): value for key, metric, value in head[head_id]}
        for key, metric, value in bounds:
            head_value = head_bounds.get((metric, key))
            if value != head_value and _is_weaker(key, value, head_value):
                loosened.append(_phrase((sample_id, metric, key), value, head_value))
    if not loosened:
        return ()
    return (f"{some(loosened)} in the golden set",)


def moved_must_pass(
    policy: Policy, base: Iterable[Sample], head: Iterable[Sample]
) -> list[str]:
    """The ids of must-pass samples that ask another question in `head` than in `base`,
    and whose text `policy` does not have."""
    questions = {sample.id: sample.question.split() for sample in head}
    must_pass = policy.must_pass
    moved = []
    for sample in base:
        is_checked = sample.id in must_pass.ids and sample.id not in must_pass.questions
        question = sample.question.split()
        if is_checked and questions.get(sample.id, question) != question:
            moved.append(sample.id)
    return moved


def metric_changes(
    base: Mapping[str, CustomMetric],
    head: Mapping[str, CustomMetric],
    changed_files: Mapping[str, str],
) -> tuple[str, ...]:
    """The changes from `base` to `head` of the metrics that a project defines, as
    `policy_changes` words them.

    `changed_files` are the metrics whose function is in a file that differs, with the
    file. Any change of a rubric or a function may weaken it, so all are listed.
    """
    changes: list[str] = []
    for name in sorted(base):
        if name not in head:
            changes.append(f"removes the metric {name}")
            continue
        for key in ("rubric", "levels", "sees", "python", "timeout_s"):
            base_value = getattr(base[name], key)
            head_value = getattr(head[name], key)
            if base_value != head_value:
                path = ("metrics", name, key)
                changes.append(_phrase(path, base_value, head_value))
        if name in changed_files:
            file = changed_files[name]
            changes.append(f"changes {file}, the code of the metric {name}")
    return tuple(changes)


def _accepted(base: Policy, head: Policy) -> Iterator[str]:
    for entry in head.accepted:
        if entry not in base.accepted:
            until = f" until {entry.expires}" if entry.expires is not None else ""
            yield f"accepts {entry.with_size}{until} ({entry.id}): {entry.reason}"


def _keys(policy: Policy) -> dict[KeyPath, object]:
    """Every key that is set, in the file or by default, with its value. Rules block
    unless they say otherwise."""
    rules: dict[KeyPath, MetricRule] = {}
    keys: dict[KeyPath, object] = {}
    for name, rule in policy.metrics.items():
        rules["metrics", name] = rule
    for tag, part in policy.slices.items():
        for name, rule in part.metrics.items():
            rules["slices", tag, "metrics", name] = rule
    for path, rule in rules.items():
        for key, value in rule.model_dump(mode="json").items():
            if value not in (None, "block"):
                keys[*path, key] = value
    tables = policy.table.model_dump(mode="json", exclude={"metrics", "slices"})
    for table, values in tables.items():
        for key, value in values.items():
            keys[table, key] = value
    return keys


def _is_weaker(key: str, base: object, head: object) -> bool:
    """Whether the change of a key from `base` to `head` weakens the gate."""
    if base is None or head is None:
        return head in (None, "warn")
    if isinstance(base, list) and isinstance(head, list):
        return any(value not in head for value in base)
    if isinstance(head, bool):
        return head is (key == "only_named")
    if isinstance(base, int | float) and isinstance(head, int | float):
        if head < base:
            return key.startswith("min")
        return key.startswith("max") or key in LIMITS
    return head == "warn"


def _phrase(path: KeyPath, base: object, head: object) -> str:
    return f"changes {_name(path)} from {_shown(base)} to {_shown(head)}"


def _name(path: KeyPath) -> str:
    return ".".join(path)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return clipped(f"[{', '.join(map(_shown, value))}]", _CLIP)
    if isinstance(value, str):
        return clipped(f"'{value}'", _CLIP)
    return str(value).lower()
