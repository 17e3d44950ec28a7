"""Differences between two policies, so that a pull request never changes the policy
silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ragstone.formatting import clipped, counted, some
from ragstone.gate.comparability import new_ids
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import LIMITS
from ragstone.golden.sample import Bound, Sample
from ragstone.settings.settings import CustomMetric
from ragstone.settings.toml_lines import KeyPath

_CLIP = 120


def policy_changes(base: Policy, head: Policy) -> tuple[str, ...]:
    """The changes from `base` to `head`: verb phrases such as "changes
    metrics.faithfulness.min from 0.85 to 0.8".

    Accepted drops come first, then changes that weaken the gate, then the rest.
    Defaults count as if they were written, so that removing a policy file shows which
    rules no longer apply.
    """
    accepted = [str(entry) for entry in head.accepted if entry not in base.accepted]
    base_keys = _keys(base)
    head_keys = _keys(head)
    head_rules = {path[:-1] for path in head_keys}
    removed = {path[:-1] for path in base_keys} - head_rules
    removed_rules = map(".".join, sorted(removed))
    weaker = [f"removes the rule {rule_name}" for rule_name in removed_rules]
    neutral: list[str] = []
    paths = base_keys.keys() | head_keys.keys()
    for path in sorted(paths):
        base_value = base_keys.get(path)
        head_value = head_keys.get(path)
        rule = path[:-1]
        key = path[-1]
        if base_value != head_value and rule not in removed:
            is_weaker = _is_weaker(key, base_value, head_value)
            phrases = weaker if is_weaker else neutral
            phrase = _phrase(path, base_value, head_value)
            phrases.append(phrase)
    return (*accepted, *weaker, *neutral)


def sample_changes(
    base: Mapping[str, str], head: Mapping[str, str], *, drafts: Collection[str] = ()
) -> Iterator[str]:
    """The samples of the golden set `base` that `head` removes, changes or turns into
    `drafts` (ids in `head`).

    `base` and `head` map ids to content hashes; `base` has only the samples that count.
    """
    renamed = new_ids(head, base)
    new_names = set(renamed.values())
    drafted = []
    removed = []
    changed = []
    for name, content in base.items():
        if renamed.get(name, name) in drafts:
            drafted.append(name)
        if name in renamed:
            continue
        if name not in head or name in new_names:
            removed.append(name)
        elif content != head[name]:
            changed.append(name)
    phrases = {
        "turns {} into drafts, which count in no check": drafted,
        "removes {} from the golden set": removed,
        "changes {} in the golden set": changed,
        "gives new ids to {} of the golden set": list(renamed),
    }
    for phrase, samples in phrases.items():
        if samples:
            count = counted(len(samples), "sample")
            change = phrase.format(count)
            yield f"{change} ({some(samples)})"


def loosened_bounds(
    base: Mapping[str, Iterable[Bound]],
    head: Mapping[str, Iterable[Bound]],
    renamed: Mapping[str, str],
) -> Iterator[str]:
    """The floors and ceilings of samples in `base` that `head` loosens or removes.

    Both are by id; `renamed` has the ids in `head` of samples that have another one
    there.
    """
    loosened = []
    for sample_id, bounds in sorted(base.items()):
        head_id = renamed.get(sample_id, sample_id)
        if head_id not in head:
            continue
        head_bounds = head[head_id]
        values = {(metric, key): value for key, metric, value in head_bounds}
        for key, metric, value in bounds:
            now = values.get((metric, key))
            if value != now and _is_weaker(key, value, now):
                path = (sample_id, metric, key)
                phrase = _phrase(path, value, now)
                loosened.append(phrase)
    if loosened:
        yield f"{some(loosened)} in the golden set"


def moved_must_pass(
    policy: Policy, base: Iterable[Sample], head: Iterable[Sample]
) -> list[str]:
    """The ids of must-pass samples that ask another question in `head` than in `base`,
    and whose text `policy` does not have."""
    must_pass = policy.must_pass
    questions = {sample.id: sample.question.split() for sample in head}
    moved = []
    for sample in base:
        is_named = sample.id in must_pass.samples
        words = sample.question.split()
        head_words = questions.get(sample.id, words)
        if is_named and sample.id not in must_pass.questions and head_words != words:
            moved.append(sample.id)
    return moved


def metric_changes(
    base: Mapping[str, CustomMetric],
    head: Mapping[str, CustomMetric],
    changed_files: Mapping[str, str],
) -> Iterator[str]:
    """The changes from `base` to `head` of the metrics that a project defines, as
    `policy_changes` words them.

    `changed_files` are the metrics whose function is in a file that differs, with the
    file. Any change of a rubric or a function may weaken it, so all are listed.
    """
    for name in sorted(base):
        if name not in head:
            yield f"removes the metric {name}"
            continue
        base_values = base[name].model_dump(mode="json")
        head_values = head[name].model_dump(mode="json")
        for key, value in base_values.items():
            now = head_values[key]
            path = ("metrics", name, key)
            if value != now:
                yield _phrase(path, value, now)
        if name in changed_files:
            file = changed_files[name]
            yield f"changes {file}, the code of the metric {name}"


def _keys(policy: Policy) -> dict[KeyPath, object]:
    """Every key that is set, in the file or by default, with its value."""
    rules = policy.model_copy(update={"metrics": policy.in_force})
    table = rules.model_dump(mode="json", exclude_none=True)
    return dict(_flat(table))


def _flat(
    table: Mapping[str, object], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, object]]:
    """The keys of a table and of those in it. What blocks need not say so."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, key))
        elif value != "block":
            yield (*path, key), value


def _is_weaker(key: str, base: object, head: object) -> bool:
    """Whether the change of a key from `base` to `head` weakens the gate."""
    match base, head:
        case (None, _) | (_, None):
            return head in (None, "warn")
        case list(), list():
            return any(value not in head for value in base)
        case _, bool():
            weaker_value = key == "only_named"
            return head == weaker_value
        case int() | float(), int() | float():
            if head < base:
                return key.startswith("min")
            return key.startswith("max") or key in LIMITS
    return head == "warn"


def _phrase(path: KeyPath, base: object, head: object) -> str:
    key = ".".join(path)
    before = _shown(base)
    now = _shown(head)
    return f"changes {key} from {before} to {now}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
    return clipped(repr(value), _CLIP)
