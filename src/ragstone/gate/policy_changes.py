"""Differences between two policies, so that a pull request never changes the policy silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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
    """The changes from `base` to `head`: verb phrases such as "lowers metrics.faithfulness.min from 0.85 to 0.8".

    Accepted drops come first, then changes that weaken the gate, then the rest. Defaults count as if they were written,
    so that removing a policy file shows which rules no longer apply.
    """
    weaker: list[str] = []
    others: list[str] = []
    before = _keys(base)
    after = _keys(head)
    gone = {path[:-1] for path in before if path[:-1] not in {path[:-1] for path in after}}
    if gone and base.table.metrics is None and head.table.metrics is not None:
        names = some([_name(rule).removeprefix("metrics.") for rule in sorted(gone)])
        weaker.append(f"has a policy of its own, in place of the default rules for {names}")
    else:
        weaker += [f"removes the rule {_name(rule)}" for rule in sorted(gone)]
    for path in sorted(before.keys() | after.keys()):
        then = before.get(path)
        now = after.get(path)
        if then != now and path[:-1] not in gone:
            phrase, is_weaker = _phrase(path, then, now)
            (weaker if is_weaker else others).append(phrase)
    return (*_accepted(base, head), *weaker, *others)


def sample_changes(
    base: Mapping[str, str], head: Mapping[str, str], *, drafts: Collection[str] = ()
) -> tuple[str, ...]:
    """The samples of the golden set `base` that `head` removes, changes or turns into `drafts` (ids in `head`).

    `base` and `head` map ids to content hashes; `base` has only the samples that count.
    """
    renamed = new_ids(head, base)
    taken = set(renamed.values())
    stayed = [name for name in base if name not in renamed]
    kept = [name for name in stayed if name in head and name not in taken]
    changes = {
        "turns {} into drafts, which count in no check": [name for name in base if renamed.get(name, name) in drafts],
        "removes {} from the golden set": [name for name in stayed if name not in kept],
        "changes {} in the golden set": [name for name in kept if base[name] != head[name]],
        "gives new ids to {} of the golden set": list(renamed),
    }
    return tuple(
        f"{phrase.format(counted(len(names), 'sample'))} ({some(names)})" for phrase, names in changes.items() if names
    )


def loosened_bounds(
    base: Mapping[str, Iterable[Bound]], head: Mapping[str, Iterable[Bound]], given: Mapping[str, str]
) -> tuple[str, ...]:
    """The floors and ceilings of samples in `base`, by id, that `head` loosens or removes; `given` are new ids."""
    renamed = {name: head[given.get(name, name)] for name in base if given.get(name, name) in head}
    before, after = (
        {(name, metric, key): value for name in renamed for key, metric, value in side[name]}
        for side in (base, renamed)
    )
    changes = (_phrase(path, then, after.get(path)) for path, then in sorted(before.items()) if then != after.get(path))
    found = [phrase for phrase, is_weaker in changes if is_weaker]
    if not found:
        return ()
    return (f"{some(found)} in the golden set",)


def moved_must_pass(policy: Policy, base: Iterable[Sample], head: Iterable[Sample]) -> list[str]:
    """The ids of must-pass samples that ask another question in `head` than in `base`, and whose text `policy` does not
    have."""
    now = {sample.id: sample.question.split() for sample in head}
    must = policy.must_pass
    return [
        sample.id
        for sample in base
        if sample.id in must.ids
        and sample.id not in must.questions
        and now.get(sample.id, sample.question.split()) != sample.question.split()
    ]


def metric_changes(
    base: Mapping[str, CustomMetric], head: Mapping[str, CustomMetric], changed_files: Mapping[str, str]
) -> tuple[str, ...]:
    """The changes from `base` to `head` of the metrics that a project defines, as `policy_changes` words them.

    `changed_files` are the metrics whose function is in a file that differs, with the file. Any change of a rubric or
    a function may weaken it, so all are listed.
    """
    changes: list[str] = []
    for name in sorted(base):
        before = base[name]
        after = head.get(name)
        if after is None:
            changes.append(f"removes the metric {name}")
            continue
        for key in ("rubric", "levels", "sees", "python", "timeout_s"):
            then = getattr(before, key)
            now = getattr(after, key)
            if then != now:
                changes.append(f"changes metrics.{name}.{key} from {_quoted(then)} to {_quoted(now)}")
        if name in changed_files:
            changes.append(f"changes {changed_files[name]}, the code of the metric {name}")
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
    """Every key with its value, from the file or by default. Rules for metrics always have an action."""
    rules: list[tuple[KeyPath, MetricRule]] = [(("metrics", name), rule) for name, rule in policy.metrics.items()]
    for tag, part in policy.slices.items():
        rules += [(("slices", tag, "metrics", name), rule) for name, rule in part.metrics.items()]
    tables: dict[KeyPath, Mapping[str, object]] = {
        path: rule.model_dump(mode="json") | {"action": (rule.action or Action.BLOCK).value} for path, rule in rules
    }
    for table, values in policy.table.model_dump(mode="json", exclude={"metrics", "slices"}).items():
        tables[(table,)] = values
    return {(*path, key): value for path, values in tables.items() for key, value in values.items()}


def _phrase(path: KeyPath, then: object, now: object) -> tuple[str, bool]:
    """The phrase, and whether it weakens the gate."""
    name = _name(path)
    key = path[-1]
    if key == "action":
        return f"changes {_name(path[:-1])} from {then or 'nothing'} to {now or 'nothing'}", now == "warn"
    if isinstance(then, list) or isinstance(now, list):
        before, after = (list(map(str, value)) if isinstance(value, list) else [] for value in (then, now))
        removed = [one for one in before if one not in after]
        if removed:
            return f"removes {some(removed)} from {name}", True
        return f"adds {some([one for one in after if one not in before])} to {name}", False
    if then is None:
        return f"adds {name} = {_shown(now)}", False
    if now is None:
        return f"removes {name} = {_shown(then)}", True
    if isinstance(now, bool):
        return f"sets {name} = {str(now).lower()}", now is (key == "only_named")
    is_weaker = False
    verb = "changes"
    if isinstance(then, int | float) and isinstance(now, int | float):
        verb = "lowers" if now < then else "raises"
        is_weaker = key.startswith("min") if now < then else key.startswith("max") or key in LIMITS
    return f"{verb} {name} from {_shown(then)} to {_shown(now)}", is_weaker


def _name(path: KeyPath) -> str:
    return ".".join(path)


def _shown(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    return f"'{value}'"
