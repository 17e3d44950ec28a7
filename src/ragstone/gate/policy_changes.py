"""Differences between two policies, so that a pull request never changes the policy
silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ragstone.formatting import clipped, counted, some
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import LIMITS, MetricRule
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Action
from ragstone.golden.sample import Bound, Sample
from ragstone.settings.settings import CustomMetric

_CLIP = 120


def policy_changes(base: Policy, head: Policy) -> tuple[str, ...]:
    """The changes from `base` to `head`: verb phrases such as "lowers
    metrics.faithfulness.min from 0.85 to 0.8".

    Accepted drops come first, then changes that weaken the gate, then the rest.
    Defaults count as if they were written, so that removing a policy file shows which
    rules no longer apply.
    """
    base_keys = _keys(base)
    head_keys = _keys(head)
    head_rules = {path[:-1] for path in head_keys}
    removed = {path[:-1] for path in base_keys} - head_rules
    weaker = list(_removals(base, head, removed))
    neutral: list[str] = []
    for path in sorted(base_keys.keys() | head_keys.keys()):
        base_value = base_keys.get(path)
        head_value = head_keys.get(path)
        if base_value == head_value or path[:-1] in removed:
            continue
        phrase, is_weaker = _phrase(path, base_value, head_value)
        if is_weaker:
            weaker.append(phrase)
        else:
            neutral.append(phrase)
    return (*_accepted(base, head), *weaker, *neutral)


def _removals(
    base: Policy, head: Policy, removed: Collection[KeyPath]
) -> Iterator[str]:
    """Phrases on the rules that `head` no longer has."""
    if removed and base.table.metrics is None and head.table.metrics is not None:
        names = some([_name(rule).removeprefix("metrics.") for rule in sorted(removed)])
        yield f"has a policy of its own, in place of the default rules for {names}"
        return
    for rule in sorted(removed):
        yield f"removes the rule {_name(rule)}"


def sample_changes(
    base: Mapping[str, str], head: Mapping[str, str], *, drafts: Collection[str] = ()
) -> tuple[str, ...]:
    """The samples of the golden set `base` that `head` removes, changes or turns into
    `drafts` (ids in `head`).

    `base` and `head` map ids to content hashes; `base` has only the samples that count.
    """
    renamed = new_ids(head, base)
    new = set(renamed.values())
    unrenamed = [sample_id for sample_id in base if sample_id not in renamed]
    common = [
        sample_id
        for sample_id in unrenamed
        if sample_id in head and sample_id not in new
    ]
    changes = {
        "turns {} into drafts, which count in no check": [
            sample_id
            for sample_id in base
            if renamed.get(sample_id, sample_id) in drafts
        ],
        "removes {} from the golden set": [
            sample_id for sample_id in unrenamed if sample_id not in common
        ],
        "changes {} in the golden set": [
            sample_id for sample_id in common if base[sample_id] != head[sample_id]
        ],
        "gives new ids to {} of the golden set": list(renamed),
    }
    phrases = []
    for phrase, samples in changes.items():
        if samples:
            phrases.append(
                f"{phrase.format(counted(len(samples), 'sample'))} ({some(samples)})"
            )
    return tuple(phrases)


def loosened_bounds(
    base: Mapping[str, Iterable[Bound]],
    head: Mapping[str, Iterable[Bound]],
    renamed: Mapping[str, str],
) -> tuple[str, ...]:
    """The floors and ceilings of samples in `base` that `head` loosens or removes.

    Both are by id; `renamed` has the ids in `head` of samples that have another one
    there.
    """
    base_bounds: dict[KeyPath, float] = {}
    head_bounds: dict[KeyPath, float] = {}
    for sample_id, bounds in base.items():
        head_id = renamed.get(sample_id, sample_id)
        if head_id in head:
            base_bounds |= _bounds_by_path(sample_id, bounds)
            head_bounds |= _bounds_by_path(sample_id, head[head_id])
    loosened = []
    for path, value in sorted(base_bounds.items()):
        if value != head_bounds.get(path):
            phrase, is_weaker = _phrase(path, value, head_bounds.get(path))
            if is_weaker:
                loosened.append(phrase)
    if not loosened:
        return ()
    return (f"{some(loosened)} in the golden set",)


def _bounds_by_path(sample_id: str, bounds: Iterable[Bound]) -> dict[KeyPath, float]:
    return {(sample_id, metric, key): value for key, metric, value in bounds}


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
                values = f"from {_quoted(base_value)} to {_quoted(head_value)}"
                changes.append(f"changes metrics.{name}.{key} {values}")
        if name in changed_files:
            changes.append(
                f"changes {changed_files[name]}, the code of the metric {name}"
            )
    return tuple(changes)


def _quoted(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_quoted, value))}]"
    if value is None:
        return "nothing"
    return clipped(_shown(value), _CLIP)


def _accepted(base: Policy, head: Policy) -> Iterator[str]:
    for entry in head.accepted:
        if entry not in base.accepted:
            until = f" until {entry.expires}" if entry.expires is not None else ""
            yield f"accepts {entry.with_size}{until} ({entry.id}): {entry.reason}"


def _keys(policy: Policy) -> dict[KeyPath, object]:
    """Every key with its value, from the file or by default. Rules for metrics always
    have an action."""
    rules: dict[KeyPath, MetricRule] = {
        ("metrics", name): rule for name, rule in policy.metrics.items()
    }
    for tag, part in policy.slices.items():
        rules |= {
            ("slices", tag, "metrics", name): rule
            for name, rule in part.metrics.items()
        }
    keys: dict[KeyPath, object] = {}
    for path, rule in rules.items():
        action = rule.action or Action.BLOCK
        values = rule.model_dump(mode="json") | {"action": action.value}
        keys |= {(*path, key): value for key, value in values.items()}
    tables = policy.table.model_dump(mode="json", exclude={"metrics", "slices"})
    for table, values in tables.items():
        keys |= {(table, key): value for key, value in values.items()}
    return keys


def _phrase(path: KeyPath, base: object, head: object) -> tuple[str, bool]:
    """The change of a key from `base` to `head` as a phrase, and whether it weakens the
    gate."""
    name = _name(path)
    key = path[-1]
    if key == "action":
        return (
            f"changes {_name(path[:-1])} from {base or 'nothing'} to {head or 'nothing'}",
            head == "warn",
        )
    if isinstance(base, list) or isinstance(head, list):
        return _phrase_of_lists(name, _texts(base), _texts(head))
    if base is None:
        return f"adds {name} = {_shown(head)}", False
    if head is None:
        return f"removes {name} = {_shown(base)}", True
    if isinstance(head, bool):
        weakens = key == "only_named"
        return f"sets {name} = {str(head).lower()}", head is weakens
    verb = "changes"
    is_weaker = False
    if isinstance(base, int | float) and isinstance(head, int | float):
        if head < base:
            verb = "lowers"
            is_weaker = key.startswith("min")
        else:
            verb = "raises"
            is_weaker = key.startswith("max") or key in LIMITS
    return f"{verb} {name} from {_shown(base)} to {_shown(head)}", is_weaker


def _phrase_of_lists(
    name: str, base: Sequence[str], head: Sequence[str]
) -> tuple[str, bool]:
    removed = [value for value in base if value not in head]
    if removed:
        return f"removes {some(removed)} from {name}", True
    added = [value for value in head if value not in base]
    return f"adds {some(added)} to {name}", False


def _texts(value: object) -> list[str]:
    """The entries of a list; none of what is no list."""
    if not isinstance(value, list):
        return []
    return [str(entry) for entry in value]


def _name(path: KeyPath) -> str:
    return ".".join(path)


def _shown(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    return f"'{value}'"
