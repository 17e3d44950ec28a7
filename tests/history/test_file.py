from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ragstone.errors import RunDirectoryError
from ragstone.history.codes import decode
from ragstone.history.file import (
    MAX_DAMAGED_LINES,
    MAX_LINE_BYTES,
    MAX_READ_BYTES,
    History,
    parse_history,
    read_history,
    write_history,
)
from ragstone.history.lines import RunLine
from tests.history.seasons import HEADLINE, compacted, line, scores


def history(count: int = 3, samples: int = 3, **fields: Any) -> History:
    found = History()
    for number in range(count):
        values = [0.5, 1.0, number % 10 / 10, *[0.25] * (samples - 3)]
        found = found.with_run(line(number, **fields), compacted(scores({"faithfulness": values})))
    return found


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "of" / "history.jsonl"
    assert read_history(path) == History()
    wanted = history()
    write_history(path, wanted)
    found = read_history(path)
    assert found == wanted
    assert decode(found.runs[2].scores["faithfulness"]).tolist().count(0.5) == 1
    # Samples are written once for all runs that refer to them.
    kinds = [json.loads(text)["kind"] for text in path.read_text(encoding="utf-8").splitlines()]
    assert kinds == ["samples", "run", "run", "run"]


@pytest.mark.parametrize(
    ("added", "runs"),
    [
        pytest.param([line(4), line(1), line(3), line(2)], [1, 2, 3, 4], id="by time"),
        pytest.param([line(1), line(1)], [1], id="the same run again"),
        pytest.param([line(7, github_run=99), line(8, github_run=99)], [7, 8], id="a second attempt of a job"),
        pytest.param([line(1, github_run=5), line(1, github_run=6)], [1, 1], id="two jobs in the same second"),
        pytest.param([line(1, commit="a" * 40), line(1, commit="b" * 40)], [1, 1], id="two commits in the same second"),
        pytest.param([line(1, commit="a" * 40)] * 2, [1], id="the same commit"),
    ],
)
def test_each_run_has_one_line(added: list[RunLine], runs: list[int]) -> None:
    found = History()
    for one in added:
        found = found.with_run(one, None)
    assert [int(one.run, 16) for one in found.runs] == runs
    assert parse_history(found.text().encode(), "h") == found


def changed(**fields: object) -> str:
    """A line of a run with other values."""
    return json.dumps({**json.loads(history(2).text().splitlines()[2]), **fields})


@pytest.mark.attack(by="history", tries="stall a command by its history", stopped_by="bounded")
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("{", "not a line of a history"),
        ('{"kind":"run"}', ""),
        ('{"kind":"song"}', "not a line of a history"),
        ("[]", "not a line of a history"),
        ("\udcff", "not a line of a history"),
        ("x" * (MAX_LINE_BYTES + 1), "longer than"),
        (changed(time="0001-01-01T00:00:00+23:00"), "years 1 to 9999"),
        (changed(time="9999-12-31T23:59:59-12:00"), "years 1 to 9999"),
        (changed(pull_request=10**400), ""),
        (changed(github_run=2**53), ""),
        (changed(github_run=10**400), ""),
        (changed(schema_version=2), "schema version is not 1"),
        (changed(metrics={"mrr": {"mean": 1.5, "low": 0.1, "high": 0.9, "n": 2}}), ""),
    ],
)
def test_a_damaged_line_is_named_and_left_out(broken: str, says: str) -> None:
    good = history(2).text().splitlines()
    body = "\n".join([*good[:2], broken, good[2]]).encode("utf-8", "surrogateescape")
    found = parse_history(body, "history.jsonl")
    assert len(found.runs) == 2
    (damaged,) = found.damaged
    assert damaged.startswith("history.jsonl:3: ")
    assert says in damaged


@pytest.mark.parametrize("name", ["pull_request", "github_run"])
def test_the_largest_number_that_every_reader_of_json_has_is_a_line(name: str) -> None:
    assert parse_history(changed(**{name: 2**53 - 1}).encode(), "h").runs


@pytest.mark.heavy
def test_a_file_with_nothing_but_damaged_lines_is_refused() -> None:
    assert len(parse_history(b"x\n" * MAX_DAMAGED_LINES, "h").damaged) == MAX_DAMAGED_LINES
    with pytest.raises(RunDirectoryError, match="more than 100,000 of its lines are damaged"):
        parse_history(b"x\n" * (MAX_DAMAGED_LINES + 1), "h")


def test_scores_that_are_not_of_their_samples_are_left_out_and_said() -> None:
    text = history(2).text()
    codes = json.loads(text.splitlines()[1])["scores"]["faithfulness"]
    alone, longer = "\n".join(text.splitlines()[1:]), text.replace(codes, codes + "AAAA", 1)
    none, grouped = text.replace(codes, "zzzzzzzz", 1), text.replace('"ids":[', '"groups":[7],"ids":[')
    missing = "h:1: the line that names its samples is missing; it is kept without per-sample scores."
    misfit = "its scores don't fit its samples"
    for body, runs, says in ((alone, 2, missing), (longer, 1, misfit), (none, 1, misfit), (grouped, 2, misfit)):
        found = parse_history(body.encode(), "h")
        assert says in found.damaged[0]
        assert [one.scores for one in found.runs[:runs]] == [{}] * runs


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_no_damage_ends_in_anything_but_a_history(noise: bytes, place: int) -> None:
    body = history(2).text().encode()
    place %= len(body)
    found = parse_history(body[:place] + noise + body[place + len(noise) :], "h")
    assert len(found.runs) <= 3
    found.text()


def test_what_is_no_file_of_a_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("wb") as stream:
        stream.truncate(MAX_READ_BYTES + 1)
    with pytest.raises(RunDirectoryError, match="probably not a history"):
        read_history(path)
    with pytest.raises(RunDirectoryError, match=str(tmp_path)):
        read_history(tmp_path)


@pytest.mark.heavy
def test_a_year_of_20_merges_a_week_with_200_samples_stays_under_5_mb() -> None:
    rng = random.Random(1)
    found = History()
    ids = [f"a sample with a name of usual length {index}" for index in range(200)]
    for number in range(52 * 20):
        if number % 20 == 0:
            ids = [*ids[1:], f"a sample that came later {number}"]  # the golden set changes every week
        run = scores({metric: [rng.random() for _ in ids] for metric in HEADLINE}, ids=ids)
        slices = {tag: line(0).metrics for tag in ("lang:de", "multi-hop")}
        found = found.with_run(line(number, slices=slices), compacted(run))
    assert len(found.runs) == 1040
    assert 1_000_000 < len(found.text().encode()) < 5_000_000
    assert found.trimmed().runs == found.runs


@pytest.mark.heavy
def test_beyond_its_bound_the_oldest_lines_go_and_those_of_healthy_runs_last() -> None:
    whole = history(60, samples=2000)
    size = len(whole.text())
    less = whole.trimmed(size - 100)
    assert less.runs == whole.runs[1:]
    least = whole.trimmed(size // 4)
    assert len(least.text()) <= size // 4
    assert least.runs == whole.runs[-len(least.runs) :]
    lasting = replace(
        whole, runs=tuple(run.model_copy(update={"eligible": run == whole.runs[0]}) for run in whole.runs)
    )
    assert lasting.trimmed(size // 2).runs[0] == lasting.runs[0]


def test_old_lines_do_not_cost_new_runs_their_scores() -> None:
    whole = history(60, samples=200, slices={f"topic {tag}": line(0).metrics for tag in range(10)})
    less = whole.trimmed(len(whole.text()) // 2)
    assert len(less.text()) <= len(whole.text()) // 2
    assert 20 < len(less.runs) < 40
    assert all(one.scores for one in less.runs)
    assert less.runs == whole.runs[-len(less.runs) :]
