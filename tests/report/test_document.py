"""What a report has of a verdict and its runs: metrics and their states, samples, titles and places."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import NO_RUN, MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import default_policy
from ragstone.gate.verdict import Action, Check, CheckKind, Comparability, Regression, Status
from ragstone.golden.sample import Message
from ragstone.metrics.score import Failed
from ragstone.report.document import MAX_ROWS, check_part, document_of
from ragstone.report.filters import PHRASES, other_checks, sentence, status_word
from ragstone.report.metrics import metric_parts
from ragstone.report.parts import Links
from ragstone.report.render import render
from ragstone.report.samples import RunSamples
from tests.gate.verdicts import verdict_of
from tests.report.checks import metric_check
from tests.report.conftest import Text, helpdesk_report, record, run_scores, verdict
from tests.report.runs import compared, passed, scores


def test_without_a_comparable_baseline_there_are_no_changes() -> None:
    first = helpdesk_report(Status.PASS, first_run=True)
    assert {row.change for row in first.metrics} == {None}
    assert first.comparison is not None
    assert not first.comparison.comparable
    found = replace(verdict(Text(), Status.PASS), comparability=Comparability(False, ("judge changed",), total=60))
    other = document_of(found, run_scores(Text()), run_scores(Text(), label="main"))
    assert all(cell.change is None for row in other.samples.rows for cell in row.cells)


def test_many_samples_are_cut_to_the_worst() -> None:
    values = {f"s{number:05}": 1 - number / 10_000 for number in range(MAX_ROWS + 500)}
    report = document_of(passed(), scores({"m": values}))
    assert (len(report.samples.rows), report.samples.total) == (MAX_ROWS, MAX_ROWS + 500)
    assert report.samples.rows[0].id == f"s{MAX_ROWS + 499:05}"


def test_commands_that_repeat_the_run_are_quoted() -> None:
    text = Text(entrypoint="command:./rag --x 'y'; rm -rf /", file="a b.jsonl")
    _, checkout, command = helpdesk_report(text=text).run.reproduce
    assert checkout.startswith("git checkout 3f2c1e9")
    assert """'--entrypoint=command:./rag --x '"'"'y'"'"'; rm -rf /'""" in command
    assert "'--golden=a b.jsonl'" in command


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (metric_check(), "pass"),
        (metric_check(Status.FAIL), "below floor"),
        (metric_check(Status.FAIL, kind=CheckKind.DROP), "dropped"),
        (metric_check(Status.FAIL, action=Action.WARN), "below floor (warns)"),
        (metric_check(Status.INCONCLUSIVE), "floor unclear"),
        (metric_check(Status.INCONCLUSIVE, kind=CheckKind.DROP), "drop unclear"),
        (metric_check(Status.INCONCLUSIVE, action=Action.WARN), "floor unclear (warns)"),
        (metric_check(Status.INCONCLUSIVE, kind=CheckKind.APPLICABILITY), "applies to few answers"),
        (metric_check(Status.ERROR), "error"),
    ],
)
def test_states_in_a_few_words(found: Check, state: str) -> None:
    assert PHRASES["state_of"](found, found) == state


@pytest.mark.parametrize(
    ("kind", "estimate", "threshold", "accepted", "state"),
    [
        (CheckKind.DROP, -0.173, -0.1729, "mzxw6ytb", "pass: accepted drop"),
        (CheckKind.DROP, 0.0, -0.02, "mzxw6ytb", "pass"),
        (CheckKind.DROP, 0.1, -0.02, "mzxw6ytb", "pass"),
        (CheckKind.RISE, 0.1, 0.05, "mzxw6ytb", "pass: accepted rise"),
        (CheckKind.RISE, -0.1, 0.05, "mzxw6ytb", "pass"),
        (CheckKind.DROP, -0.03, -0.02, None, "pass: no drop shown"),
        (CheckKind.DROP, -0.02, -0.02, None, "pass"),
        (CheckKind.RISE, 0.03, 0.02, None, "pass: no rise shown"),
        (CheckKind.RISE, 0.02, 0.02, None, "pass"),
    ],
)
def test_a_change_that_passes_says_why_if_it_looks_like_a_loss(
    kind: CheckKind, estimate: float, threshold: float, accepted: str | None, state: str
) -> None:
    found = metric_check(kind=kind, estimate=estimate, threshold=threshold, accepted=accepted)
    assert PHRASES["state_of"](found, found) == state


@pytest.mark.parametrize(
    ("status", "action", "word"),
    [
        (Status.FAIL, Action.WARN, "warn"),
        (Status.ERROR, Action.WARN, "warn"),
        (Status.FAIL, Action.BLOCK, "fail"),
        (Status.ERROR, Action.BLOCK, "error"),
        (Status.PASS, Action.WARN, "pass"),
        (Status.INCONCLUSIVE, Action.WARN, "inconclusive"),
    ],
)
def test_a_status_is_one_word(status: Status, action: Action, word: str) -> None:
    assert status_word(metric_check(status, action=action)) == word


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("all pass", "All pass"),
        ("pass.", "Pass."),
        ("context_recall fell", "Context recall fell"),
        ("scores.csv does not say", "scores.csv does not say"),
        ("see docs/context_recall", "See docs/context_recall"),
    ],
)
def test_a_sentence_has_titles_and_a_capital(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_a_metric_of_the_offline_judge_has_the_grade_that_was_measured() -> None:
    grades = {row.metric: row.offline_reliability for row in helpdesk_report(offline=True).metrics}
    assert (grades["tone"], bool(grades["faithfulness"])) == (None, True)
    assert {row.offline_reliability for row in helpdesk_report().metrics} == {None}


def test_a_blocking_failure_decides_over_a_warning() -> None:
    drop = metric_check(Status.FAIL, kind=CheckKind.DROP, estimate=-0.1, threshold=-0.02)
    found = verdict_of(Status.FAIL, "", (metric_check(Status.FAIL, action=Action.WARN), drop))
    row = document_of(found, scores({"faithfulness": {"a": 0.9}})).metrics[0]
    assert (row.action, row.state) == (Action.BLOCK, "dropped")


def test_a_change_is_that_of_the_samples_of_both_runs_where_the_metric_can_be_compared() -> None:
    now = scores({"m": {"a": 0.2, "b": 1.0}, "other": {"a": 0.2}})
    then = scores({"m": {"a": 0.8}, "other": {"a": 0.9}})
    sliced = metric_check(metric="m", slice="de", n=2)
    verdict = verdict_of(Status.PASS, "", [sliced], comparability=compared("m"))
    rows = {(row.metric, row.slice): row for row in metric_parts(verdict, now, then)}
    assert rows["m", None].change == pytest.approx(-0.6)
    assert (rows["m", None].current, rows["m", None].baseline, rows["m", None].score) == (0.2, 0.8, 0.6)
    assert (rows["other", None].change, rows["m", "de"].change) == (None, None)
    assert {row.change for row in metric_parts(verdict, now, NO_RUN)} == {None}


def test_a_metric_has_a_row_if_it_has_a_score_or_lost_one() -> None:
    metrics = {"lost": MetricScores({}, failed={"a": Failed("judge", "refused")}), "none": MetricScores({})}
    rows = metric_parts(passed(), RunScores("run", metrics, {"a": SampleFacts()}), NO_RUN)
    assert [(row.metric, row.score, row.failed) for row in rows] == [("lost", None, 1)]


@pytest.mark.parametrize(
    ("kinds", "n"), [({CheckKind.FLOOR: 10, CheckKind.DROP: 5}, 10), ({CheckKind.DROP: 5}, 5), ({}, 1)]
)
def test_the_samples_of_a_row_are_those_of_its_floor_or_else_of_its_drop(kinds: dict[CheckKind, int], n: int) -> None:
    checks = [metric_check(kind=kind, n=samples) for kind, samples in kinds.items()]
    (row,) = metric_parts(passed(*checks), scores({"faithfulness": {"a": 0.9}}), NO_RUN)
    assert row.n == n


def test_a_worst_sample_shows_every_metric_that_it_lost_on() -> None:
    lost = (Regression("a", "faithfulness", 0.2, 0.9),)
    found = passed(comparability=compared("faithfulness", "tone"), regressions=lost)
    now = scores({"faithfulness": {"a": 0.2}, "tone": {"a": 0.5}, "other": {"a": 0.0}})
    then = scores({"faithfulness": {"a": 0.9}, "tone": {"a": 0.8}, "other": {"a": 1.0}})
    changes = document_of(found, now, then).samples.worst[0].changes
    assert [(change.metric, change.current, change.baseline) for change in changes] == [
        ("faithfulness", 0.2, 0.9),
        ("tone", 0.5, 0.8),
    ]


def test_failures_are_grouped_by_reason_and_named_the_systems_first() -> None:
    groups = helpdesk_report().samples.failures
    assert [(group.by, [sample.id for sample in group.samples]) for group in groups] == [
        ("system", ["q-059"]),
        ("judge", ["q-058"]),
    ]
    assert groups[0].metrics == ()
    assert len(groups[1].metrics) == 5


def test_failures_that_differ_in_a_line_number_are_one_group() -> None:
    ids = [f"q-{number:03}" for number in range(25)]
    reasons = {sample_id: f"raised: ValueError: line {7 * at % 11}" for at, sample_id in enumerate(ids)}
    run = RunScores("now", {}, {name: SampleFacts() for name in ids}, SystemFacts(failures=reasons))
    (group,) = RunSamples(passed(), run, None, Links()).failures({})
    assert group.reason == "raised: ValueError: line 0"
    assert [sample.id for sample in group.samples] == ids


@pytest.mark.parametrize(("answers", "metrics"), [({}, []), ({"a": ("fingerprint",)}, ["m"])])
def test_a_run_that_gave_some_answers_has_metrics_though_it_failed_on_each_sample(
    answers: dict[str, tuple[str, ...]], metrics: list[str]
) -> None:
    system = SystemFacts(failures={"a": "timed out"}, failed_answers={"a": 1}, answers=answers)
    run = replace(scores({"m": {"a": 0.5}}), system=system)
    assert [row.metric for row in document_of(passed(), run).metrics] == metrics


def test_a_question_after_earlier_turns_is_shown_as_it_was_judged() -> None:
    text = Text()
    one = record(text)
    talk = dataclasses.replace(
        one.sample, history=(Message("user", "Is there a gateway?"), Message("assistant", "Yes."))
    )
    asked = dataclasses.replace(one.answers[0].judgements[0], standalone_question="Which port does the gateway use?")
    shown = dataclasses.replace(one, sample=talk, answers=(dataclasses.replace(one.answers[0], judgements=(asked,)),))
    sample = helpdesk_report(details={text.id: shown}).samples.worst[0]
    judged = "(after 2 earlier messages; judged as: Which port does the gateway use?)"
    assert sample.question == f"{text.question} {judged}"
    unjudged = dataclasses.replace(shown, answers=(dataclasses.replace(shown.answers[0], judgements=()),))
    earlier = helpdesk_report(details={text.id: unjudged}).samples.worst[0].question
    assert earlier == f"{text.question} (after 2 earlier messages)"


@pytest.mark.parametrize(("n", "left_out", "named"), [(4, 6, True), (5, 5, False)])
def test_a_score_of_few_samples_says_of_how_many(n: int, left_out: int, named: bool) -> None:
    report = helpdesk_report()
    rows = tuple(
        replace(row, n=n, not_applicable=left_out, status=None, score=1.0, current=None, check=None)
        for row in report.metrics
    )
    report = replace(report, metrics=rows, checks=())
    for form in ("text", "md", "html"):
        text = render(report, form)
        assert (f"1.00 (n = {n})" in text.replace("&nbsp;", " ").replace("\u00a0", " ")) is named


def test_without_a_baseline_nothing_got_worse() -> None:
    worst = helpdesk_report().samples.worst
    assert PHRASES["worst_heading"](worst) == "What got worse"
    alone = [replace(sample, changes=tuple(replace(c, baseline=None) for c in sample.changes)) for sample in worst]
    assert PHRASES["worst_heading"](alone) == "What falls short"


def test_metrics_that_lost_the_same_samples_share_a_row() -> None:
    values = {f"q{number}": 0.9 for number in range(5)}
    lost = {f"x{number}": Failed("judge", "timeout") for number in range(4)}
    names = ("faithfulness", "context_recall", "context_precision")
    metrics = {name: MetricScores(values, failed=lost) for name in names}
    metrics["answer_relevancy"] = MetricScores(values, failed={**lost, "y": Failed("judge", "refused")})
    samples = dict.fromkeys([*values, *lost, "y"], SampleFacts())
    checks = map(check_part, decide_gate(RunScores("run", metrics, samples), None, default_policy()).checks)
    assert [(row.title, row.n) for row in other_checks(checks) if row.kind == CheckKind.COVERAGE] == [
        ("Coverage: Faithfulness, Context recall, Context precision", 9),
        ("Coverage: Answer relevancy", 10),
    ]
