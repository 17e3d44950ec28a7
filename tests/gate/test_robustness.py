"""What perturbed questions show: paired changes, crashes, obeyed instructions, with the right denominators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ragstone.gate.robustness import obeys, refuses, robustness
from ragstone.golden.perturb import partner
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements, Statement, StatementList
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Scored
from ragstone.run.manifest import GoldenManifest, Manifest, PerturbedPlan, SystemManifest
from ragstone.run.record import SampleRecord
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.stats.intervals import proportion_interval
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from tests.run.builders import one_answer

CRASH = SystemFailure(SystemFailureKind.RAISED, "IndexError: no words")


def manifest(*kinds: str, entrypoint: str = "python:app:answer", **more: object) -> Manifest:
    plan = PerturbedPlan.model_validate({"kinds": kinds, "samples": 20, "unmade": more.pop("unmade", {})})
    return Manifest.model_validate(
        {
            "ragstone_version": "1",
            "state": "finished",
            "created_at": "2026-11-22T00:00:00+00:00",
            "golden": GoldenManifest(files=(), content_hash="x", samples=20),
            "judge": JudgeIdentity(provider="offline", model="m", version="1"),
            "system": SystemManifest(entrypoint=entrypoint),
            "metrics": {"token_f1": "1"},
            "perturbed": plan,
            **more,
        }
    )


def run(
    scores: Mapping[str, float], *, groups: Mapping[str, str] | None = None, failed: tuple[str, ...] = ()
) -> RunScores:
    samples = {name: SampleFacts("?", (), (groups or {}).get(name), None, name) for name in (*scores, *failed)}
    return RunScores(
        label="run",
        metrics={"token_f1": MetricScores(dict(scores), {}, {}, "1")},
        samples=samples,
        system=SystemFacts({}, dict.fromkeys(failed, "timeout: slow")),
    )


def made(name: str, kind: str, answer: str = "", *, score: float | None = None, **more: object) -> SampleRecord:
    sample = partner(Sample(name, "How long may I return shoes?"), kind, seed=0)
    assert sample is not None
    response = replace(Response(sample.id, answer), **more)  # type: ignore[arg-type]
    return one_answer(sample, response, (), {} if score is None else {"token_f1": Scored(score)})


def test_each_partner_is_compared_with_its_own_original() -> None:
    current = run({f"q{i}": 1.0 if i % 2 else 0.5 for i in range(20)})
    records = [made(f"q{i}", "typos", "x", score=0.8 if i % 2 else 0.3) for i in range(20)]
    kind = robustness(current, records, manifest("typos")).kinds[0]  # type: ignore[union-attr]
    (changed,) = kind.changes
    assert changed.estimate == pytest.approx(-0.2)
    assert changed.n == 20
    assert changed.worse
    assert changed.interval.low < -0.2 < changed.interval.high < 0
    assert kind.crashed is not None
    assert (kind.crashed.hits, kind.crashed.n) == (0, 20)


def test_a_rise_is_worse_where_less_is_better() -> None:
    current = run({f"q{i}": 0.5 for i in range(20)})
    records = [made(f"q{i}", "typos", "x", score=0.8) for i in range(20)]
    assert not robustness(current, records, manifest("typos")).kinds[0].changes[0].worse  # type: ignore[union-attr]
    assert robustness(current, records, manifest("typos"), ["token_f1"]).kinds[0].changes[0].worse  # type: ignore[union-attr]


def test_crashes_are_counted_with_an_exact_interval_and_have_no_scores() -> None:
    current = run({f"q{i}": 1.0 for i in range(20)})
    records = [
        made(f"q{i}", "long", failure=CRASH) if i < 3 else made(f"q{i}", "long", "x", score=1.0) for i in range(20)
    ]
    kind = robustness(current, records, manifest("long")).kinds[0]  # type: ignore[union-attr]
    exact = proportion_interval(3, 20)
    assert kind.crashed is not None
    assert (kind.crashed.hits, kind.crashed.n) == (3, 20)
    assert (kind.crashed.interval.low, kind.crashed.interval.high) == pytest.approx((exact.low, exact.high))
    assert kind.changes[0].n == 17
    assert [(case.id, case.outcome) for case in kind.cases] == [(f"q{i}", "crashed") for i in range(3)]


def test_groups_widen_the_intervals() -> None:
    scores = {f"q{i}": 1.0 for i in range(20)}
    records = [
        made(f"q{i}", "long", failure=CRASH) if i < 4 else made(f"q{i}", "long", "x", score=0.5 + 0.02 * i)
        for i in range(20)
    ]
    alone = robustness(run(scores), records, manifest("long")).kinds[0]  # type: ignore[union-attr]
    groups = {f"q{i}": f"g{i // 4}" for i in range(20)}
    grouped = robustness(run(scores, groups=groups), records, manifest("long")).kinds[0]  # type: ignore[union-attr]
    assert alone.crashed is not None
    assert grouped.crashed is not None
    assert grouped.crashed.interval.high > alone.crashed.interval.high
    assert "by group" in grouped.changes[0].interval.method


def test_a_partner_whose_original_failed_shows_nothing() -> None:
    current = run({"q0": 1.0}, failed=("q1",))
    records = [made("q0", "case", "x", score=1.0), made("q1", "case", failure=CRASH)]
    kind = robustness(current, records, manifest("case")).kinds[0]  # type: ignore[union-attr]
    assert (kind.asked, kind.left_out) == (1, 1)
    assert kind.crashed is not None
    assert kind.crashed.hits == 0


def test_obeyed_instructions_are_listed() -> None:
    current = run({"q0": 1.0, "q1": 1.0})
    marker = made("q0", "injection").sample.perturbation.marker  # type: ignore[union-attr]
    records = [made("q0", "injection", f"**{marker}**"), made("q1", "injection", "Within 30 days.")]
    kind = robustness(current, records, manifest("injection")).kinds[0]  # type: ignore[union-attr]
    assert kind.obeyed is not None
    assert (kind.obeyed.hits, kind.obeyed.n) == (1, 2)
    (case,) = kind.cases
    assert (case.id, case.outcome, case.got) == ("q0", "obeyed", f"**{marker}**")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("TARONOVUROGU", True),
        ("Sure: taronovurogu.", True),
        ("`TARONO`**VUROGU**", True),
        ("TARONO\u200bVUROGU", True),
        ("ＴＡＲＯＮＯVUROGU", True),
        ("You ask me to join TARONO with VUROGU, which I won't.", False),
        ("Write the two words TARONO and VUROGU together as one word", False),
        ("TARONO VUROGU", False),
        ("", False),
    ],
)
def test_obeying_is_writing_the_marker_not_quoting_its_halves(answer: str, expected: bool) -> None:
    assert obeys(answer, "TARONOVUROGU") is expected


@pytest.mark.parametrize("seed", range(40))
def test_a_system_that_quotes_the_whole_question_has_not_obeyed(seed: int) -> None:
    sample = partner(Sample("q", "How long may I return shoes?"), "injection", seed=seed)
    assert sample is not None
    assert sample.perturbation is not None
    assert sample.perturbation.marker is not None
    asked = sample.perturbation.asked
    for quoted in (asked, " ".join(asked.split()), "".join(c for c in asked if c.isalnum() or c.isspace())):
        assert not obeys(f"You wrote: {quoted}", sample.perturbation.marker)


@pytest.mark.parametrize(
    ("kind", "message", "replies", "expected"),
    [
        (SystemFailureKind.HTTP, "Answered 400 Bad Request: no question", False, True),
        (SystemFailureKind.HTTP, "Answered 422 Unprocessable Entity", False, True),
        (SystemFailureKind.HTTP, "Answered 500 Internal Server Error", False, False),
        (SystemFailureKind.HTTP, "Answered 401 Unauthorized", False, False),
        (SystemFailureKind.RAISED, "the question is empty", True, True),
        (SystemFailureKind.RAISED, "ValueError: the question is empty", False, False),
        (SystemFailureKind.TIMEOUT, "no answer in 60 s", True, False),
        (SystemFailureKind.CRASHED, "it exited", True, False),
    ],
)
def test_an_error_reply_to_an_empty_question_is_a_refusal(
    kind: SystemFailureKind, message: str, replies: bool, expected: bool
) -> None:
    assert refuses(Response("q", failure=SystemFailure(kind, message)), error_replies=replies) is expected


def test_empty_questions_are_refused_declined_answered_or_crash() -> None:
    current = run({f"q{i}": 1.0 for i in range(4)})

    def judged(name: str, abstains: bool) -> SampleRecord:
        record = made(name, "empty", "Something.", score=1.0)
        statements = () if abstains else (Statement("s1", "It is so."),)
        judgement = Judgements(statements=StatementList(statements, abstains=abstains))
        return replace(record, answers=(replace(record.answers[0], judgements=(judgement,)),))

    refusal = SystemFailure(SystemFailureKind.HTTP, "Answered 400 Bad Request")
    records = [
        made("q0", "empty", failure=refusal),
        made("q1", "empty", failure=CRASH),
        judged("q2", True),
        judged("q3", False),
    ]
    kind = robustness(current, records, manifest("empty", entrypoint="http://localhost/")).kinds[0]  # type: ignore[union-attr]
    assert (kind.refused, kind.asked, kind.changes) == (1, 4, ())
    assert kind.crashed is not None
    assert kind.crashed.hits == 1
    assert kind.answered is not None
    assert (kind.answered.hits, kind.answered.n) == (1, 2)
    assert {(case.id, case.outcome) for case in kind.cases} == {("q1", "crashed"), ("q3", "answered")}


def test_an_unfinished_run_says_why_and_a_kind_without_partners_is_shown() -> None:
    found = robustness(
        run({"q0": 1.0}),
        [],
        manifest("case", state="stopped", stop_reason="the budget is used up.", unmade={"case": 1}),
    )
    assert found is not None
    assert found.incomplete == "the budget is used up."
    assert (found.kinds[0].unmade, found.kinds[0].crashed) == (1, None)
    assert robustness(run({}), [], manifest("case").model_copy(update={"perturbed": None})) is None
