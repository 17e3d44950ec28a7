"""Questions in quarantine: which entries are in force, and which are refused."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from ragstone.config.load import load_settings
from ragstone.config.settings import Quarantined
from ragstone.errors import ConfigError
from ragstone.golden.quarantine import MAX_DAYS, expired, most_of, with_quarantine
from ragstone.golden.sample import GoldenSet, Review, Sample

TODAY = date(2027, 1, 10)
GOLDEN = GoldenSet(tuple(Sample(f"q{i}", f"Question {i}?") for i in range(40)))


def entry(name: str, days: int = 10) -> Quarantined:
    return Quarantined(id=name, until=TODAY + timedelta(days=days), reason="flips")


def test_a_question_in_quarantine_is_in_the_set_and_does_not_count() -> None:
    found = with_quarantine(GOLDEN, [entry("q3"), entry("q7", 0), entry("q9", -1)], TODAY, where=None)
    assert len(found) == 40
    assert [one.id for one in found.quarantine] == ["q3", "q7"]  # the last day counts, the day after does not
    assert [one.id for one in found.counting()] == [f"q{i}" for i in range(40) if i not in (3, 7)]
    assert found.content_hash() == GOLDEN.content_hash()


def test_drafts_do_not_count_either() -> None:
    golden = GoldenSet((Sample("a", "?"), Sample("b", "?", review=Review("draft"))))
    assert [one.id for one in golden.counting()] == ["a"]


def test_an_expired_entry_is_a_warning() -> None:
    assert list(expired([entry("q3"), entry("q9", -1)], TODAY)) == [
        "The quarantine of q9 ended on 2027-01-09, so it counts again: remove its entry."
    ]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([entry("q77")], "names 'q77', which is not in the golden set"),
        ([entry("q77", -5)], "names 'q77', which is not in the golden set"),
        ([entry("q7"), entry("q7", 20)], "names 'q7' twice"),
        ([entry("q7", MAX_DAYS + 1)], "until 2027-04-11, which is more than 90 days from now"),
        ([entry(f"q{i}") for i in range(3)], r"has 3 of 40 questions; at most 2 can be in quarantine \(5 %"),
    ],
)
def test_what_is_refused_names_the_file(entries: list[Quarantined], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        with_quarantine(GOLDEN, entries, TODAY, where="ragstone.toml")
    assert caught.value.where == "ragstone.toml"
    assert caught.value.hint


def test_of_a_part_of_the_golden_set_other_entries_are_left_out() -> None:
    found = with_quarantine(GOLDEN[:2], [entry(f"q{i}") for i in range(3)], TODAY, where=None, whole=False)
    assert [one.id for one in found.quarantine] == ["q0", "q1"]


@pytest.mark.parametrize(("samples", "most"), [(1, 1), (19, 1), (40, 2), (10_000, 500)])
def test_at_most_one_in_twenty_can_be_in_quarantine(samples: int, most: int) -> None:
    assert most_of(samples) == most


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('id = "q7"\nreason = "flips"', "golden.quarantine.0.until"),
        ('id = "q7"\nuntil = 2027-02-01', "golden.quarantine.0.reason"),
        ('id = "q7"\nuntil = "soon"\nreason = "flips"', "golden.quarantine.0.until"),
        ('id = "q7"\nuntil = 2027-02-01\nreason = "flips"\nmetric = "x"', "golden.quarantine.0.metric"),
    ],
)
def test_an_entry_has_an_id_a_date_and_a_reason(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "ragstone.toml").write_text(f"[[golden.quarantine]]\n{text}\n")
    with pytest.raises(ConfigError, match=expected):
        load_settings(directory=tmp_path, environ={})
