"""What the view says of a verdict and its runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import default_policy
from ragstone.gate.verdict import (
    CHANGES,
    Action,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    Interval,
    Regression,
    Status,
)
from ragstone.golden.sample import Origin, Turn
from ragstone.metrics.score import Failed
from ragstone.report import wording
from ragstone.report.parts import Links
from ragstone.report.plots import axis_for, mark
from ragstone.report.rows import check_reason, check_rows, metric_rows, metric_state
from ragstone.report.samples import SAMPLE_ROWS, RunSamples
from ragstone.report.trend import Scale
from ragstone.report.view import build_view
from tests.gate.verdicts import verdict_of
from tests.report.conftest import Text, record, run_scores, verdict, view_of


def check(status: Status = Status.PASS, **changes: object) -> Check:
    found = Check(
        name="faithfulness floor",
        kind=CheckKind.FLOOR,
        status=status,
        action=Action.BLOCK,
        reason="",
        metric="faithfulness",
        estimate=0.9,
        interval=Interval(0.88, 0.92, 0.95, "bootstrap"),
        threshold=0.85,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_an_axis_fits_differences_that_are_all_zero_where_no_drop_is_allowed() -> None:
    same = check(kind=CheckKind.DROP, estimate=0.0, interval=Interval(0.0, 0.0, 0.95, "exact"), threshold=0.0)
    axis = axis_for([same], CHANGES)
    assert axis is not None
    assert (axis.low, axis.high) == (-0.1, 0.1)
    assert mark(same, axis) is not None


def passed(*checks: Check, **more: Any) -> GateVerdict:
    return verdict_of(Status.PASS, "", checks, **more)


def compared(*metrics: str, samples: int = 1) -> Comparability:
    return Comparability(True, paired=samples, total=samples, metrics=metrics)


def scores(values: dict[str, dict[str, float]], label: str = "run") -> RunScores:
    ids = {sample_id for found in values.values() for sample_id in found}
    return RunScores(
        label=label,
        metrics={name: MetricScores(found) for name, found in values.items()},
        samples={sample_id: SampleFacts() for sample_id in sorted(ids)},
    )


def test_a_row_has_its_floor_and_its_drop_together_and_slices_come_after_the_whole_run() -> None:
    rows = view_of().metrics
    first = rows[0]
    assert (first.metric, first.score, first.floor) == ("faithfulness", 0.91, 0.85)
    assert (first.change, first.max_drop, first.status, first.state) == (-0.09, 0.02, Status.FAIL, "dropped")
    assert [row.slice for row in rows] == [None] * 5 + ["lang:de"]
    assert (rows[4].metric, rows[4].state) == ("tone", "not gated")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (check(), "pass"),
        (check(Status.FAIL), "below floor"),
        (check(Status.FAIL, kind=CheckKind.DROP), "dropped"),
        (check(Status.FAIL, action=Action.WARN), "below floor (warns)"),
        (check(Status.INCONCLUSIVE), "floor unclear"),
        (check(Status.INCONCLUSIVE, kind=CheckKind.DROP), "drop unclear"),
        (check(Status.INCONCLUSIVE, action=Action.WARN), "floor unclear (warns)"),
        (check(Status.ERROR), "error"),
        (None, "not gated"),
    ],
)
def test_states_in_a_few_words(found: Check | None, state: str) -> None:
    assert metric_state(found) == state


def test_a_drop_that_was_accepted_is_not_said_to_be_no_drop() -> None:
    drop = check(kind=CheckKind.DROP, estimate=-0.173, threshold=-0.1729, accepted="mzxw6ytb")
    assert metric_state(drop, drop) == "pass: accepted drop"


def test_a_blocking_failure_decides_over_a_warning() -> None:
    drop = check(Status.FAIL, kind=CheckKind.DROP, estimate=-0.1, threshold=-0.02)
    found = verdict_of(Status.FAIL, "", (check(Status.FAIL, action=Action.WARN), drop))
    row = build_view(found, scores({"faithfulness": {"a": 0.9}})).metrics[0]
    assert (row.action, row.state) == (Action.BLOCK, "dropped")


def test_the_worst_sample_says_what_was_wrong_with_it() -> None:
    sample = view_of().worst[0]
    assert sample.id == "port-default"
    assert [(bad.text, bad.verdict) for bad in sample.unsupported] == [
        ("The gateway listens on port 8080.", "contradicted")
    ]
    assert sample.missing == ("The gateway listens on port 8443.",)
    assert (sample.contexts, sample.useful_contexts) == (2, 1)
    assert sample.baseline_answer == "The gateway listens on port 8443."
    assert sample.place is not None
    assert sample.place.url == "https://github.com/acme/helpdesk/blob/3f2c1e9/golden/helpdesk.jsonl?plain=1#L1"


def test_a_worst_sample_shows_every_metric_that_it_lost_on() -> None:
    lost = (Regression("a", "faithfulness", 0.2, 0.9),)
    found = passed(comparability=compared("faithfulness", "tone"), regressions=lost)
    now = scores({"faithfulness": {"a": 0.2}, "tone": {"a": 0.5}, "other": {"a": 0.0}})
    then = scores({"faithfulness": {"a": 0.9}, "tone": {"a": 0.8}, "other": {"a": 1.0}})
    changes = build_view(found, now, then).worst[0].changes
    assert [(change.metric, change.current, change.baseline) for change in changes] == [
        ("faithfulness", 0.2, 0.9),
        ("tone", 0.5, 0.8),
    ]


def test_a_sample_without_a_record_is_named_all_the_same() -> None:
    sample = view_of(details={}).worst[0]
    assert sample.question == Text().question
    assert not sample.detailed


def test_failures_are_grouped_by_reason_and_named_the_systems_first() -> None:
    groups = view_of().failures
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
    (group,) = RunSamples(run, (), Links()).failures()
    assert group.reason == "raised: ValueError: line 0"
    assert [sample.id for sample in group.samples] == ids


def test_without_a_comparable_baseline_there_are_no_changes_and_no_differences() -> None:
    first = view_of(Status.PASS, first_run=True)
    assert {row.change for row in first.metrics} == {None}
    assert first.comparison is not None
    assert not first.comparison.comparable
    found = replace(verdict(Text(), Status.PASS), comparability=Comparability(False, ("judge changed",), total=60))
    other = build_view(found, run_scores(Text()), run_scores(Text(), label="main"))
    assert all(cell.change is None for row in other.samples for cell in row.cells)
    assert first.differences == other.differences == ()


def test_differences_count_what_got_worse_and_better() -> None:
    now = scores({"m": {"a": 0.0, "b": 0.5, "c": 0.5, "d": 1.0}})
    then = scores({"m": {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.0}})
    (differences,) = build_view(passed(comparability=compared("m", samples=4)), now, then).differences
    assert (differences.worse, differences.same, differences.better) == (1, 1, 2)
    assert sum(differences.counts) == 3
    assert differences.counts[0] == differences.counts[-1] == 1


def test_many_samples_are_cut_to_the_worst() -> None:
    values = {f"s{number:05}": 1 - number / 10_000 for number in range(SAMPLE_ROWS + 500)}
    view = build_view(passed(), scores({"m": values}))
    assert (len(view.samples), view.samples_total) == (SAMPLE_ROWS, SAMPLE_ROWS + 500)
    assert view.samples[0].id == f"s{SAMPLE_ROWS + 499:05}"


def test_plain_scores_make_a_view_without_judge_cost_or_commands() -> None:
    view = build_view(passed(), scores({"m": {"a": 1.0}}))
    assert (view.judge, view.cost, view.reproduce) == (None, None, ())
    assert view.metrics[0].score == 1.0


def test_commands_that_repeat_the_run_are_quoted() -> None:
    text = Text(entrypoint="command:./rag --x 'y'; rm -rf /", file="a b.jsonl")
    _, checkout, command = view_of(text=text).reproduce
    assert checkout.startswith("git checkout 3f2c1e9")
    assert """--entrypoint 'command:./rag --x '"'"'y'"'"'; rm -rf /'""" in command
    assert "--golden 'a b.jsonl'" in command


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        (Origin("g.jsonl", 3), "https://h/g.jsonl#L3"),
        (Origin("./a/b c.jsonl", 3), "https://h/a/b%20c.jsonl#L3"),
        (Origin("a\\b.jsonl", 3), "https://h/a/b.jsonl#L3"),
        (Origin("g.parquet"), "https://h/g.parquet"),
        (Origin("{line}#?.jsonl", 7), "https://h/%7Bline%7D%23%3F.jsonl#L7"),
        (Origin("/etc/passwd", 1), None),
        (Origin("a/../../x.jsonl", 1), None),
        (Origin("C:\\x.jsonl", 1), None),
    ],
)
def test_places_become_addresses_inside_the_repository(origin: Origin, url: str | None) -> None:
    assert Links.from_pattern("https://h/{file}#L{line}").origin(origin) == url


def drawn(low: float, estimate: float, high: float, half: float = 0.1) -> str:
    found = check(estimate=estimate, interval=Interval(low, high, 0.95, ""), threshold=0.5)
    return Scale(half).draw(found, 21)


@pytest.mark.parametrize(
    ("low", "estimate", "high", "picture"),
    [
        (0.52, 0.55, 0.58, "··········│·├──●──┤··"),
        (0.42, 0.45, 0.48, "··├──●──┤·│··········"),
        (0.47, 0.48, 0.55, "·······├●─┼────┤·····"),
        (0.3, 0.45, 0.9, "◂────●────┼─────────▸"),
        (0.5001, 0.51, 0.52, "··········│●┤········"),
        (0.5, 0.51, 0.52, "··········│●┤········"),
    ],
    ids=["right of it", "left of it", "across it", "beyond the picture", "close to it", "from it on"],
)
def test_an_interval_is_drawn_where_it_lies_from_its_threshold(
    low: float, estimate: float, high: float, picture: str
) -> None:
    assert drawn(low, estimate, high) == picture


def test_nothing_is_drawn_without_a_threshold_or_an_estimate() -> None:
    assert Scale(0.1).draw(check(threshold=None)) == ""
    assert Scale(0.1).draw(check(estimate=None, interval=None)) == ""


@pytest.mark.parametrize(
    ("checks", "half"),
    [
        ([check(), check(estimate=0.8, interval=None)], 0.07),
        ([], 0.02),
        ([check(estimate=0.1, interval=None)], 0.25),
    ],
)
def test_a_scale_fits_all_its_checks_within_bounds(checks: list[Check], half: float) -> None:
    assert Scale.for_checks(checks).half == pytest.approx(half)


def test_under_a_title_that_names_the_metric_its_reason_does_not_name_it_again() -> None:
    values = {f"q{number}": 0.9 for number in range(5)}
    lost = {f"x{number}": Failed("judge", "refused: too long") for number in range(4)}
    run = RunScores(
        "run", {"context_recall": MetricScores(values, failed=lost)}, dict.fromkeys({**values, **lost}, SampleFacts())
    )
    checks = decide_gate(run, None, default_policy()).checks
    coverage = next(one for one in checks if one.kind is CheckKind.COVERAGE and one.metric == "context_recall")
    assert coverage.reason.startswith("context_recall: 4 of 9 samples have no score (")
    assert check_reason(coverage).startswith("4 of 9 samples have no score (")
    assert "refused: too long" in check_reason(coverage)
    floor = check(reason="Context recall: is low.", kind=CheckKind.FLOOR)
    assert check_reason(floor) == "Context recall: is low."


def test_metrics_that_lost_the_same_samples_share_a_row() -> None:
    values = {f"q{number}": 0.9 for number in range(5)}
    lost = {f"x{number}": Failed("judge", "timeout") for number in range(4)}
    names = ("faithfulness", "context_recall", "context_precision")
    metrics = {name: MetricScores(values, failed=lost) for name in names}
    metrics["answer_relevancy"] = MetricScores(values, failed={**lost, "y": Failed("judge", "refused")})
    samples = dict.fromkeys([*values, *lost, "y"], SampleFacts())
    rows = check_rows(decide_gate(RunScores("run", metrics, samples), None, default_policy()).checks)
    assert [(row.title, row.check.n) for row in rows if row.check.kind is CheckKind.COVERAGE] == [
        ("Coverage: Faithfulness, Context recall, Context precision", 9),
        ("Coverage: Answer relevancy", 10),
    ]


def test_without_a_baseline_nothing_got_worse() -> None:
    worst = view_of().worst
    assert wording.worst_heading(worst) == "What got worse"
    alone = [replace(sample, changes=tuple(replace(c, baseline=None) for c in sample.changes)) for sample in worst]
    assert wording.worst_heading(alone) == "What falls short"


def test_a_row_says_how_the_scores_of_its_samples_differ() -> None:
    values = {"a": 0.2, "b": 0.4, "c": 0.9}
    facts = {name: SampleFacts(tags=("de",) if name != "c" else ()) for name in values}
    run = RunScores("run", {"tone": MetricScores(values), "one": MetricScores({"a": 0.5})}, facts)
    sliced = Check(
        "de/tone", CheckKind.FLOOR, Status.PASS, Action.BLOCK, "", metric="tone", slice="de", estimate=0.3, n=2
    )
    rows = {(row.metric, row.slice): row for row in metric_rows(verdict_of(Status.PASS, "", [sliced]), run, None, {})}
    whole, part = rows["tone", None], rows["tone", "de"]
    assert (whole.min, whole.max) == (0.2, 0.9)
    assert whole.sd == pytest.approx(0.3605551)
    assert (part.min, part.max) == (0.2, 0.4)
    assert part.sd == pytest.approx(0.1414214)
    one = rows["one", None]
    assert (one.min, one.max, one.sd) == (0.5, 0.5, None)


def test_a_question_after_earlier_turns_is_shown_as_it_was_judged() -> None:
    text = Text()
    one = record(text)
    talk = replace(one.sample, history=(Turn("user", "Is there a gateway?"), Turn("assistant", "Yes.")))
    asked = replace(one.answers[0].judgements[0], standalone_question="Which port does the gateway use?")
    shown = replace(one, sample=talk, answers=(replace(one.answers[0], judgements=(asked,)),))
    sample = view_of(details={text.id: shown}).worst[0]
    assert sample.question == (
        f"{text.question} (after 2 earlier messages; judged as: Which port does the gateway use?)"
    )
    unjudged = replace(shown, answers=(replace(shown.answers[0], judgements=()),))
    assert view_of(details={text.id: unjudged}).worst[0].question == f"{text.question} (after 2 earlier messages)"
