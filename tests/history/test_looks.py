from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragstone.history.codes import compact
from ragstone.history.entry import look_line
from ragstone.history.file import History, parse_history
from ragstone.history.lines import LookLine, SamplesLine, line_text
from ragstone.history.looks import every_look, summed
from ragstone.run.manifest import Invocation, SystemManifest
from ragstone.run.scores import SystemFacts
from tests.gate.conftest import build_run, make_manifest
from tests.history.seasons import START, compacted, line, scores


def look(number: int, **fields: Any) -> LookLine:
    """Look `number`, an hour after the one before."""
    given = {"by": {"local": 1.0}, "golden": "f" * 64, "answers": f"{number:016x}", **fields}
    return LookLine.model_validate({"time": START + timedelta(hours=number), **given})


def samples_of(*ids: str) -> SamplesLine:
    return compact(scores({"faithfulness": [1.0] * len(ids)}, ids=ids), ()).samples


def total(one: LookLine) -> float:
    return sum(one.by.values())


# -- what counts -------------------------------------------------------------------------------------------------------


def test_the_line_of_a_run_is_a_look_and_one_without_a_verdict_is_none() -> None:
    found = every_look([line(0), line(1, verdict="none"), line(2)], [look(3)])
    assert [dict(one.by) for one in found] == [{"main": 1.0}, {"local": 1.0}, {"main": 1.0}]


def test_a_line_that_a_merge_repeated_counts_once() -> None:
    one = line_text(look(1, by={"pull_request": 3.0}))
    found = parse_history("\n".join([one, line_text(look(2)), one, one, ""]).encode(), "history.jsonl")
    assert [total(each) for each in found.looks] == [3.0, 1.0]
    assert found.damaged == ()


def test_the_same_answers_or_the_same_commit_are_one_candidate_however_often_they_were_looked_at() -> None:
    looks = [look(1), look(2, answers="a" * 16), look(3, answers="a" * 16)]
    looks += [look(4, commit="c" * 40), look(5, commit="c" * 40, answers="b" * 16)]
    found = summed(looks, {}, "f" * 64, None)
    assert (total(found), found.candidates) == (5.0, 3.0)


def test_a_commit_counts_once_on_github_and_answers_tell_versions_apart_elsewhere() -> None:
    at_github = every_look([line(n, github_run=n + 1, commit="c" * 40) for n in range(3)], [])
    assert summed(at_github, {}, "f" * 64, None).candidates == 1.0
    elsewhere = every_look([line(n, answers=f"{n:016x}", commit="c" * 40) for n in range(3)], [])
    assert summed(elsewhere, {}, "f" * 64, None).candidates == 3.0


def test_a_look_counts_as_the_share_of_todays_samples_that_it_saw() -> None:
    then, now = samples_of("a", "b", "c"), samples_of("a", "b", "c", "d")
    other = samples_of("x", "y")
    known = {one.key: one for one in (then, now, other)}
    looks = [look(1, golden="0", samples=other.key), look(2, golden="1", samples=then.key), look(3, golden="2")]
    found = summed([*looks, look(4, golden="3", samples=now.key)], known, "3", now.key)
    assert total(found) == found.candidates == 1.75
    assert found.since == START + timedelta(hours=2)  # the set that had three of the four


def test_one_more_question_is_no_refreshment_and_other_questions_are() -> None:
    sets = [samples_of(*map(str, range(50 + added))) for added in range(10)]
    known = {one.key: one for one in sets}
    looks = [look(n, golden=str(n), samples=one.key) for n, one in enumerate(sets)]
    assert total(summed(looks, known, "9", sets[-1].key)) > 9.0
    fresh = samples_of(*"abcdef")
    found = summed(looks, {**known, fresh.key: fresh}, "10", fresh.key)
    assert total(found) == found.candidates == 0.0


# -- the line of a run -------------------------------------------------------------------------------------------------


def test_a_look_has_the_commit_only_of_a_clean_checkout() -> None:
    run = build_run({"faithfulness": [1.0, 0.5]})
    system = SystemManifest(entrypoint="app:answer", commit="c" * 40)
    started = Invocation(command="run", changed=0, untracked=0)
    manifest = make_manifest().model_copy(update={"system": system, "invocation": started})
    clean = look_line(run, manifest, "b" * 16, "a" * 16)
    assert (clean.commit, clean.verdict, clean.metrics) == ("c" * 40, "none", {"faithfulness": 0.75})
    for edit in ({"changed": 1}, {"untracked": 1}, {"changed": None}):
        edited = manifest.model_copy(update={"invocation": started.model_copy(update=edit)})
        assert look_line(run, edited, "b" * 16, "a" * 16).commit is None


def test_answers_are_told_apart_and_scores_where_there_are_none() -> None:
    def key(run: Any) -> Any:
        return look_line(run, make_manifest(), "b" * 16, "a" * 16).answers

    run = build_run({"faithfulness": [1.0, 0.5]})
    assert key(run) == key(build_run({"faithfulness": [1.0, 0.5]})) != key(build_run({"faithfulness": [1.0, 0.6]}))
    answered = [replace(run, system=SystemFacts(answers={"s0": (text,), "s1": ("b",)})) for text in ("a", "a", "c")]
    assert key(answered[0]) == key(answered[1]) != key(answered[2])
    in_other_order = replace(run, system=SystemFacts(answers={"s1": ("b",), "s0": ("a",)}))
    assert key(in_other_order) == key(answered[0])


# -- sums --------------------------------------------------------------------------------------------------------------


def test_a_sum_stands_for_all_looks_up_to_its_time_also_in_a_merge_with_a_file_that_still_has_them() -> None:
    singles = [look(n, by={"pull_request": 2.0}) for n in range(6)]
    runs = [line(0)]
    whole = summed(every_look(runs, singles[:4]), {}, "f" * 64, None)
    found = every_look(runs, [*singles, whole, whole])
    assert [total(one) for one in found] == [9.0, 2.0, 2.0]
    longer = summed(found[:2], {}, "f" * 64, None)
    assert [total(one) for one in every_look(runs, [*singles, whole, longer])] == [11.0, 2.0]


def test_a_run_that_loses_its_samples_stays_counted() -> None:
    history = History()
    for number in range(120):
        history = history.with_run(line(number, github_run=number + 1), compacted(scores({"faithfulness": [0.5] * 4})))
    slim = history.slimmed(history.runs[-1].time, days=1)
    assert 0 < sum(one.samples is not None for one in slim.runs) < 120
    every = every_look(slim.runs, slim.looks)
    assert sum(map(total, every)) == 120.0
    assert sum(one.candidates for one in every) == 120.0
    again = parse_history(slim.text().encode(), "history.jsonl")
    assert again == slim
    assert again.slimmed(history.runs[-1].time, days=1) == slim


def test_looks_take_no_more_than_a_part_of_the_file_and_their_number_stays() -> None:
    sets = [samples_of(*(f"{number}-{at}" if at < number else str(at) for at in range(400))) for number in range(120)]
    looks = [look(n, golden=str(n), samples=one.key) for n, one in enumerate(sets)]
    history = History().with_looks(looks, {one.key: one for one in sets}).with_run(line(0, golden="x"), None)
    history = history.within()
    assert len(history.text()) < 5 * 1024 * 1024 / 20 + 2_000
    assert len(history.runs) == 1
    before = summed(looks, {one.key: one for one in sets}, "119", sets[-1].key)
    after = summed(every_look((), history.looks), history.samples, "119", sets[-1].key)
    assert abs(total(after) - total(before)) < 0.05 * total(before)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["local", "pull_request"])), max_size=30), st.randoms())
def test_looks_are_read_as_they_were_written_in_any_order(given_: list[tuple[int, str]], rng: random.Random) -> None:
    looks = [look(number, by={by: 1.0}) for number, by in given_]
    history = History().with_looks(looks, {})
    lines = history.text().splitlines()
    rng.shuffle(lines)
    assert parse_history("\n".join(lines).encode(), "history.jsonl") == history
    assert len(history.looks) == len(set(given_))
