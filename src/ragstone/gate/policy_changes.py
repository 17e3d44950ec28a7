"""Differences between two policies, so that a pull request never changes the policy
silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ragstone.formatting import clipped, counted, join_first
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import LIMIT_KEYS
from ragstone.gate.verdict import Action
from ragstone.golden.sample import Bound, Sample
from ragstone.settings.settings import CustomMetric
from ragstone.settings.toml_lines import KeyPath

_MAX_VALUE_CHARACTERS = 120
"""A longer value is cut in a phrase."""

_WEAKEST_FIRST: Mapping[str, tuple[str, ...]] = {
    "action": (Action.WARN, Action.BLOCK),
    "decision": ("evidence", "assured"),
    "inconclusive": ("pass", "warn", "fail"),
    "on_no_baseline": ("pass", "warn", "fail"),
    "on_judge_change": ("skip", "rejudge", "fail"),
}
"""The values of each key that is set to a word, in the order in which they let fewer
runs pass."""


def policy_changes(base: Policy, head: Policy) -> tuple[str, ...]:
    """The changes from `base` to `head`: verb phrases such as "changes
    metrics.faithfulness.min from 0.85 to 0.8".

    Accepted drops come first, then changes that weaken the gate, then the rest.
    Defaults count as if they were written, so that removing a policy file shows which
    rules no longer apply.
    """
    accepted = [str(entry) for entry in head.accepted if entry not in base.accepted]
    base_values = _values_by_key(base)
    head_values = _values_by_key(head)
    head_rules = {path[:-1] for path in head_values}
    removed_rules = {path[:-1] for path in base_values} - head_rules
    weakening = [f"removes the rule {'.'.join(rule)}" for rule in sorted(removed_rules)]
    remaining: list[str] = []
    for path in sorted(base_values.keys() | head_values.keys()):
        rule = path[:-1]
        key = path[-1]
        base_value = base_values.get(path)
        head_value = head_values.get(path)
        is_changed = _effective(key, base_value) != _effective(key, head_value)
        if is_changed and rule not in removed_rules:
            phrase = _change_phrase(path, base_value, head_value)
            if _is_weaker(key, base_value, head_value):
                weakening.append(phrase)
            else:
                remaining.append(phrase)
    return (*accepted, *weakening, *remaining)


def sample_changes(
    base: Mapping[str, str], head: Mapping[str, str], *, drafts: Collection[str] = ()
) -> Iterator[str]:
    """The samples of the golden set `base` that `head` removes, changes or turns into
    `drafts` (ids in `head`).

    `base` and `head` map ids to content hashes; `base` has only the samples that count.
    """
    head_ids = new_ids(current=head, baseline=base)
    taken_ids = set(head_ids.values())
    drafted = []
    removed = []
    changed = []
    for sample_id, content in base.items():
        # A new id doesn't hide that the sample no longer counts.
        if head_ids.get(sample_id, sample_id) in drafts:
            drafted.append(sample_id)
        if sample_id in head_ids:
            continue
        if sample_id not in head or sample_id in taken_ids:
            removed.append(sample_id)
        elif content != head[sample_id]:
            changed.append(sample_id)
    phrases = {
        "turns {} into drafts, which count in no check": drafted,
        "removes {} from the golden set": removed,
        "changes {} in the golden set": changed,
        "gives new ids to {} of the golden set": list(head_ids),
    }
    for phrase, ids in phrases.items():
        if ids:
            samples = counted(len(ids), "sample")
            change = phrase.format(samples)
            yield f"{change} ({join_first(ids)})"


def loosened_bounds(
    base: Mapping[str, Iterable[Bound]],
    head: Mapping[str, Iterable[Bound]],
    head_ids: Mapping[str, str],
) -> Iterator[str]:
    """One phrase on the floors and ceilings of single samples in `base` that `head`
    loosens or removes; nothing if there are none.

    Both map sample ids to bounds. `head_ids` maps the id in `base` of each sample that
    has a new id to that new id.
    """
    loosened = []
    for sample_id, bounds in sorted(base.items()):
        head_id = head_ids.get(sample_id, sample_id)
        if head_id not in head:
            continue
        head_bounds = {(metric, key): bound for key, metric, bound in head[head_id]}
        for key, metric, bound in bounds:
            head_bound = head_bounds.get((metric, key))
            if bound != head_bound and _is_weaker(key, bound, head_bound):
                path = (sample_id, metric, key)
                phrase = _change_phrase(path, bound, head_bound)
                loosened.append(phrase)
    if loosened:
        yield f"{join_first(loosened)} in the golden set"


def moved_must_pass(
    policy: Policy, base: Iterable[Sample], head: Iterable[Sample]
) -> list[str]:
    """The ids of must-pass samples that ask another question in `head` than in `base`.

    Samples whose question `policy` has are left out: the gate itself checks that text.
    """
    must_pass = policy.must_pass
    head_words = {sample.id: _words(sample) for sample in head}
    moved = []
    for sample in base:
        is_guarded = sample.id in must_pass.samples
        has_question = sample.id in must_pass.questions
        words = _words(sample)
        is_reworded = head_words.get(sample.id, words) != words
        if is_guarded and is_reworded and not has_question:
            moved.append(sample.id)
    return moved


def _words(sample: Sample) -> list[str]:
    """The words of the question: other white space makes no other question."""
    return sample.question.split()


def metric_changes(
    base: Mapping[str, CustomMetric],
    head: Mapping[str, CustomMetric],
    changed_code: Mapping[str, str],
) -> Iterator[str]:
    """The changes from `base` to `head` of the metrics that a project defines, as
    `policy_changes` words them.

    `changed_code` maps each metric whose function is in a file that differs to the path
    of that file. Any change of a rubric or a function may weaken it, so all are listed.
    """
    for name in sorted(base):
        if name not in head:
            yield f"removes the metric {name}"
            continue
        base_values = base[name].model_dump(mode="json")
        head_values = head[name].model_dump(mode="json")
        for key, base_value in base_values.items():
            head_value = head_values[key]
            path = ("metrics", name, key)
            if base_value != head_value:
                yield _change_phrase(path, base_value, head_value)
        if name in changed_code:
            yield f"changes {changed_code[name]}, the code of the metric {name}"


def _values_by_key(policy: Policy) -> dict[KeyPath, object]:
    """The value of every key that is set, in the file or by default."""
    rules = policy.model_copy(update={"metrics": policy.rules_in_force})
    table = rules.model_dump(mode="json", exclude_none=True)
    return dict(_flattened(table))


def _flattened(
    table: Mapping[str, object], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, object]]:
    """The keys of a table and of the tables in it, each with its value."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, (*path, key))
        else:
            yield (*path, key), value


def _effective(key: str, value: object) -> object:
    """The value in force: a rule blocks unless it says otherwise."""
    if key == "action" and value is None:
        return Action.BLOCK
    return value


def _is_weaker(key: str, base: object, head: object) -> bool:
    """Whether setting `key` from `base` to `head` lets more runs pass. None is unset,
    and numbers and words without a known order never are weaker."""
    order = _WEAKEST_FIRST.get(key, ())
    base = _effective(key, base)
    head = _effective(key, head)
    if base in order and head in order:
        return order.index(head) < order.index(base)
    match base, head:
        # What is removed is no longer checked.
        case _, None:
            return True
        # Samples or names that are listed no longer are not checked.
        case list(), list():
            return any(value not in head for value in base)
        # `only_named` switches rules off; every other switch demands more.
        case bool(), bool():
            return head is (key == "only_named")
        # The names of limits say in which direction they are stricter.
        case int() | float(), int() | float() if head < base:
            return key.startswith("min")
        case int() | float(), int() | float():
            return key.startswith("max") or key in LIMIT_KEYS
    return False


def _change_phrase(path: KeyPath, base: object, head: object) -> str:
    key = ".".join(path)
    return f"changes {key} from {_shown(base)} to {_shown(head)}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
    return clipped(repr(value), _MAX_VALUE_CHARACTERS)
