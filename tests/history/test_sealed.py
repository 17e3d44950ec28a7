"""Releases of sealed means in a history."""

from __future__ import annotations

from ragstone.history.file import MAX_SEALED, History, parse_history
from ragstone.history.lines import SealedLine
from ragstone.run.manifest import SealedFact, SealedMean, SealedMeans

MEAN = SealedMean(mean=0.9, low=0.85, high=0.94, n=100)


def line(release: int) -> SealedLine:
    fact = SealedFact(
        key="a" * 16,
        questions=100,
        release=release,
        count=release,
        drawn=True,
        means={"faithfulness": SealedMeans(seen=MEAN, sealed=MEAN)},
    )
    return SealedLine(run=f"{release:016x}", judge_key="b" * 16, versions={"faithfulness": "2"}, fact=fact)


def test_releases_are_read_as_they_were_written_each_once_and_the_newest_are_kept() -> None:
    history = History()
    for release in range(1, MAX_SEALED + 11):
        history = history.with_sealed(line(release))
    found = parse_history(history.text().encode() * 2, "history.jsonl")
    assert found.sealed == history.sealed
    assert [one.fact.release for one in found.sealed] == list(range(11, MAX_SEALED + 11))
    assert len(history.text()) < 200_000


def test_a_damaged_release_is_left_out_alone() -> None:
    text = History().with_sealed(line(1)).text().replace('"mean":0.9', '"mean":9')
    found = parse_history(text.encode() + History().with_sealed(line(2)).text().encode(), "history.jsonl")
    assert [one.fact.release for one in found.sealed] == [2]
    assert len(found.damaged) == 1
