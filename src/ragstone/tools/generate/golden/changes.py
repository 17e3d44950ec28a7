"""What changed from one golden set to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from ragstone.formatting import clipped
from ragstone.golden.sample import Review, Sample
from ragstone.report.templates import render_text_template
from ragstone.tools.generate.near_duplicates import similar_pairs

REWORDED = 0.5
"""From this similarity of their questions on, a sample that is gone and a new one are one that was reworded."""

_NOT_CONTENT = frozenset({"id", "origin"})


@dataclass(frozen=True, slots=True)
class Changed:
    """A sample that is in both sets, and the fields that differ. `paired`: its scores can still be compared."""

    before: Sample
    after: Sample
    fields: tuple[str, ...]
    paired: bool

    @property
    def name(self) -> str:
        return self.before.id if self.before.id == self.after.id else f"{self.before.id} → {self.after.id}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two golden sets; `renamed` and `reworded` are pairs of samples with different ids."""

    added: tuple[Sample, ...]
    removed: tuple[Sample, ...]
    changed: tuple[Changed, ...]
    renamed: tuple[Changed, ...]
    reworded: tuple[Changed, ...]
    same: int

    @property
    def paired(self) -> int:
        """The number of samples that a run on the new set can compare with a baseline on the old one."""
        return self.same + sum(one.paired for one in (*self.changed, *self.renamed))

    @property
    def total(self) -> int:
        return self.same + len(self.changed) + len(self.renamed) + len(self.reworded) + len(self.added)

    def text(self, before: str, after: str) -> str:
        """The differences between two files, for a terminal."""
        return render_text_template("changes.txt.j2", __package__, found=self, before=before, after=after, shown=_shown)

    def json(self) -> dict[str, object]:
        found: dict[str, object] = {"same": self.same, "paired": self.paired}
        for name in ("changed", "renamed", "reworded"):
            found[name] = [
                {"before": one.before.id, "after": one.after.id, "fields": list(one.fields), "paired": one.paired}
                for one in getattr(self, name)
            ]
        return found | {name: [sample.id for sample in getattr(self, name)] for name in ("added", "removed")}


def changes(before: Sequence[Sample], after: Sequence[Sample]) -> Changes:
    """Compare two golden sets by id; samples whose id is in one only by content, then by the question's wording."""
    old, new = {one.id: one for one in before}, {one.id: one for one in after}
    changed = [_changed(one, new[one.id]) for one in before if one.id in new]
    gone = [one for one in before if one.id not in new]
    come = [one for one in after if one.id not in old]
    once = Counter(one.content_hash() for one in come)
    twice = Counter(one.content_hash() for one in gone)
    by_content = {one.content_hash(): one for one in come if once[one.content_hash()] == 1}
    renamed = [
        _changed(one, by_content[content])
        for one in gone
        if (content := one.content_hash()) in by_content and twice[content] == 1
    ]
    paired = {one.before.id for one in renamed}, {one.after.id for one in renamed}
    gone = [one for one in gone if one.id not in paired[0]]
    come = [one for one in come if one.id not in paired[1]]
    reworded = _reworded(gone, come)
    paired = {one.before.id for one in reworded}, {one.after.id for one in reworded}
    return Changes(
        added=tuple(one for one in come if one.id not in paired[1]),
        removed=tuple(one for one in gone if one.id not in paired[0]),
        changed=tuple(one for one in changed if one.fields),
        renamed=tuple(renamed),
        reworded=tuple(reworded),
        same=sum(not one.fields for one in changed),
    )


def _changed(before: Sample, after: Sample) -> Changed:
    differ = tuple(
        one.name
        for one in fields(Sample)
        if one.name not in _NOT_CONTENT and getattr(before, one.name) != getattr(after, one.name)
    )
    return Changed(before, after, differ, paired=before.content_hash() == after.content_hash())


def _reworded(gone: Sequence[Sample], come: Sequence[Sample]) -> list[Changed]:
    texts = [one.question for one in (*gone, *come)]
    found: list[Changed] = []
    used: set[int] = set()
    for pair in similar_pairs(texts, least=REWORDED):
        if pair.first < len(gone) <= pair.second and not used & {pair.first, pair.second}:
            used |= {pair.first, pair.second}
            found.append(_changed(gone[pair.first], come[pair.second - len(gone)]))
    return found


def _shown(sample: Sample, field: str) -> str:
    value = getattr(sample, field)
    if value is None or value == () or value == {}:
        return "nothing"
    if isinstance(value, Review):
        return ", ".join(part for part in (value.status, value.reviewer, value.date) if part)
    if isinstance(value, Mapping):
        value = ", ".join(f"{key} ({grade:g})" for key, grade in value.items())
    elif isinstance(value, tuple):
        value = " | ".join(map(str, value))
    return clipped(" ".join(str(value).split()), 100)
