"""One cause for each worse sample, what to do about it, and its part in the attribution."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.gate.decide import decide_gate
from ragstone.gate.diagnosis import Cause, catalogue, causes_of, diagnosis_of
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.sample_change import SUPPORTED_FROM, JudgedAnswer, SampleChange, sample_change
from ragstone.gate.verdict import Side
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.report.filters import PHRASES
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.cli.project import SYSTEM, make_project
from tests.cli.project import ragstone as run_ragstone
from tests.gate.conftest import build_run as run

EVIDENCE = "The warranty of the Arden pump lasts five years from the day of purchase."
OTHERS = (
    "Opening hours on Sundays differ between the northern branches and the harbour.",
    "Invoices are sent by letter unless the customer has asked for something else.",
    "Returned goods are inspected in the warehouse before money is paid back.",
)
SAMPLE = Sample("q", "How long is the warranty?", reference="Five years.", reference_contexts=(EVIDENCE,))
S, U, C = Verdict.SUPPORTED, Verdict.UNSUPPORTED, Verdict.CONTRADICTED


def record(
    verdicts: Sequence[tuple[Verdict, tuple[str, ...]]] = ((S, ("c1",)),),
    *,
    contexts: Sequence[str] = (EVIDENCE, *OTHERS),
    said: bool = True,
    backed: bool = True,
    abstains: bool = False,
    similarity: float = 0.9,
    sample: Sample = SAMPLE,
    answer: str = "",
) -> SampleRecord:
    """One sample, judged as a judge would that finds the evidence where it is. Other verdicts, another answer."""
    answer = answer or f"The warranty lasts five years: {verdicts} {said} {backed} {abstains}."
    statements = tuple(Statement(f"s{at}", "…") for at, _ in enumerate(verdicts, 1))
    useful = [text == EVIDENCE for text in contexts]
    held = tuple(f"c{at}" for at, one in enumerate(useful, 1) if one)
    judged = Judgements(
        statements=StatementList(() if abstains else statements, abstains=abstains),
        support=None
        if abstains
        else SupportTable(tuple(Support(f"s{at}", verdict, by) for at, (verdict, by) in enumerate(verdicts, 1))),
        context_use=ContextUse(
            tuple(ContextUsefulness(f"c{at}", one) for at, one in enumerate(useful, 1)),
            against_reference=True,
            reference_statements=(Statement("r1", "…"),),
            attributions=(Support("r1", S if held else U, held),),
        )
        if contexts
        else None,
        reference_match=None
        if abstains
        else ReferenceMatch(
            (Statement("r1", "…"), Statement("r2", "…")),
            tuple(Support(one.id, S if backed else U) for one in statements),
            (Support("r1", S if said or backed else U), Support("r2", S if said else U)),
        ),
        reverse_questions=ReverseQuestions(("?",), (similarity,)),
    )
    response = Response("q", answer, tuple(Context(text) for text in contexts))
    return SampleRecord(sample, (Answer(response, (judged,)),), {})


def cause_of(now: SampleRecord, before: SampleRecord | None = None) -> Cause | None:
    return next(iter(causes_of(sample_change(now, before))), None)


GOOD = record()
CASES: dict[Cause, SampleRecord] = {
    Cause.NOT_RETRIEVED: record([(S, ("c1",))], contexts=OTHERS, said=False, backed=False),
    Cause.RANKED_LOW: record([(S, ("c1",))], contexts=(*OTHERS, EVIDENCE), said=False, backed=False),
    Cause.CONTRADICTED: record([(C, ()), (S, ("c1",))]),
    Cause.IGNORED: record([(U, ()), (U, ())], said=False, backed=False),
    Cause.INVENTED: record([(S, ("c1",)), (U, ())]),
    Cause.EVASIVE: record(abstains=True),
    Cause.WRONG_QUESTION: record([(S, ("c1",))], said=False, backed=False, similarity=0.2),
    Cause.INCOMPLETE: record([(S, ("c1",))], said=False),
    Cause.EMPTY: record([], answer="## - ", said=False, backed=False),
    Cause.LANGUAGE: record([(U, ())], answer="Die Garantie gilt für fünf Jahre ab dem Tag des Kaufs.", said=False),
}


@pytest.mark.parametrize("cause", CASES, ids=str)
def test_each_cause_with_and_without_a_baseline(cause: Cause) -> None:
    assert cause_of(CASES[cause], GOOD) is cause
    assert cause_of(CASES[cause]) is cause


def test_what_contexts_support_of_the_answer_says_nothing_of_the_reference() -> None:
    judged = GOOD.judgements[0]
    use = judged.context_use
    assert isinstance(use, ContextUse)
    of_answer = replace(judged, context_use=replace(use, against_reference=False))
    unmarked = replace(SAMPLE, reference_contexts=(), relevant_ids={})
    of_nothing = replace(judged, context_use=replace(use, attributions=()))
    for judgements, retrieved in ((judged, True), (of_answer, None), (of_nothing, None)):
        answers = (Answer(GOOD.response, (judgements,)),)
        assert sample_change(replace(GOOD, sample=unmarked, answers=answers)).evidence_retrieved is retrieved


@pytest.mark.parametrize(
    ("similarity", "said", "is_wrong"), [(0.2, False, True), (SUPPORTED_FROM, False, False), (0.2, True, False)]
)
def test_an_answer_to_another_question_is_unlike_the_reference_too(
    similarity: float, said: bool, is_wrong: bool
) -> None:
    changed = record([(S, ("c1",))], said=said, backed=said, similarity=similarity)
    assert (Cause.WRONG_QUESTION in causes_of(sample_change(changed, GOOD))) is is_wrong


LOW = (*OTHERS, EVIDENCE)
LONG = record(answer="The warranty lasts five years. It begins on the day of purchase.")
UNANSWERABLE = replace(SAMPLE, answerable=False)
CRASHED = replace(
    GOOD, answers=(Answer(Response("q", failure=SystemFailure(SystemFailureKind.TIMEOUT, "No answer within 60 s."))),)
)
BARE = replace(GOOD, answers=(Answer(GOOD.response, ()),))
WITHOUT_CONTEXTS = record([(U, ())], contexts=(), said=False)


@pytest.mark.parametrize(
    ("now", "before", "cause"),
    [
        pytest.param(GOOD, GOOD, None, id="good as before"),
        pytest.param(GOOD, None, None, id="good"),
        pytest.param(BARE, BARE, None, id="without judgements"),
        pytest.param(CRASHED, GOOD, Cause.CRASHED, id="a failure comes first"),
        pytest.param(record([(U, ())], answer="The warranty lasts five", said=False), LONG, Cause.CUT, id="cut"),
        pytest.param(
            record([(U, ())], answer="The warranty lasts five years.", said=False), LONG, Cause.INVENTED, id="ends"
        ),
        pytest.param(record(sample=UNANSWERABLE), None, Cause.INVENTED, id="answers what can't be answered"),
        pytest.param(record(abstains=True, sample=UNANSWERABLE), None, None, id="abstains where it should"),
        pytest.param(record([(S, ("c2",))], said=False, backed=False), GOOD, Cause.IGNORED, id="from other passages"),
        pytest.param(WITHOUT_CONTEXTS, None, Cause.NO_CONTEXTS, id="a system that returns none"),
        pytest.param(WITHOUT_CONTEXTS, WITHOUT_CONTEXTS, None, id="returned none before"),
        pytest.param(WITHOUT_CONTEXTS, GOOD, Cause.NOT_RETRIEVED, id="returned some before"),
        # What was no better in the baseline explains nothing.
        pytest.param(record([], answer="## -"), record([], answer="- ##"), None, id="empty before too"),
        pytest.param(
            record(abstains=True, answer="I don't know."),
            record(abstains=True, answer="No idea."),
            None,
            id="abstained",
        ),
        pytest.param(
            record([(U, ())], contexts=OTHERS), record(contexts=OTHERS), Cause.INVENTED, id="missing before too"
        ),
        pytest.param(
            record([(U, ())], contexts=LOW), record([(S, ("c4",))], contexts=LOW), Cause.INVENTED, id="low before too"
        ),
        # A lower rank is no cause where the answer draws on the evidence anyway.
        pytest.param(record([(S, ("c4",)), (U, ())], contexts=LOW), GOOD, Cause.INVENTED, id="low and drawn on"),
        pytest.param(record([(S, ("c4",))], contexts=LOW), GOOD, Cause.RANKED_LOW, id="low alone"),
    ],
)
def test_the_cause_beside_a_baseline(now: SampleRecord, before: SampleRecord | None, cause: Cause | None) -> None:
    assert cause_of(now, before) is cause


def test_an_answer_that_is_the_same_is_not_blamed() -> None:
    """What the judge says otherwise of the same words comes from other contexts, or from the judge."""
    before, now = (record(found, answer="Five years.") for found in ([(S, ("c1",))], [(U, ())]))
    assert cause_of(now, before) is None
    worse = record([(U, ())], said=False)
    assert cause_of(replace(worse, answers=(replace(worse.answers[0], response=GOOD.response),)), worse) is None


def test_without_a_baseline_labels_say_whether_the_evidence_is_there() -> None:
    """The judge of words alone takes a passage that is cut for one that holds the reference."""
    assert cause_of(record([(U, ())], contexts=OTHERS)) is Cause.NOT_RETRIEVED
    named = replace(SAMPLE, reference_contexts=(), relevant_ids={"p7": 1.0})
    answers = record([(U, ())], contexts=OTHERS, sample=named).answers
    bare = replace(answers[0], judgements=(replace(answers[0].judgements[0], context_use=None),))
    with_ids = replace(bare, response=replace(bare.response, contexts=(Context("…", "p1"), Context("…", "p7"))))
    assert cause_of(SampleRecord(named, (with_ids,), {})) is Cause.INVENTED
    without = replace(bare, response=replace(bare.response, contexts=(Context("…", "p1"), Context("…", "p2"))))
    assert cause_of(SampleRecord(named, (without,), {})) is Cause.NOT_RETRIEVED


def test_names_without_texts_blame_the_retriever_only_by_their_ids() -> None:
    """The texts of the evidence can't be found where there are none."""
    names = tuple(Context("", name) for name in ("p1", "p2"))

    def named(*contexts: Context, **labels: Any) -> SampleRecord:
        found = replace(record([(U, ())]).answers[0], response=Response("q", "Five years.", contexts))
        return SampleRecord(replace(SAMPLE, **labels), (replace(found, judgements=()),), {})

    assert cause_of(named(*names)) is not Cause.NOT_RETRIEVED
    assert cause_of(named(*names), GOOD) is not Cause.NOT_RETRIEVED
    labels = {"reference_contexts": (), "relevant_ids": {"p7": 1.0}}
    hit = named(Context("", "p7"), **labels)
    assert cause_of(named(*names, **labels)) is Cause.NOT_RETRIEVED
    assert cause_of(hit) is not Cause.NOT_RETRIEVED
    assert cause_of(named(*names, **labels), hit) is Cause.NOT_RETRIEVED


def test_every_cause_has_a_title_an_action_and_a_source() -> None:
    assert set(catalogue()) == set(Cause)
    for known in catalogue().values():
        assert set(known) == {"title", "side", "changed", "short", "action", "source"}
        assert known["action"].endswith(".")
        assert known["source"].startswith("https://")
        assert Side(known["side"]) in (Side.RETRIEVAL, Side.GENERATION, Side.UNCLEAR)


def counted(retrieval: int, generation: int) -> dict[str, tuple[Cause, ...]]:
    found: dict[str, tuple[Cause, ...]] = {f"r{at}": (Cause.NOT_RETRIEVED,) for at in range(retrieval)}
    found.update((f"g{at}", (Cause.INVENTED,)) for at in range(generation))
    return {**found, "x": ()}


def test_causes_are_counted_with_the_share_of_retrieval_and_its_interval() -> None:
    causes: dict[str, tuple[Cause, ...]] = {f"q{at}": (Cause.IGNORED,) for at in range(9)}
    causes |= {f"r{at}": (Cause.NOT_RETRIEVED, Cause.IGNORED)[: 1 + at] for at in range(3)}
    found = diagnosis_of({**causes, "x": (), "y": (Cause.CRASHED,)}, confidence=0.95)
    assert found is not None
    assert [(one.title, len(one.samples), one.seen) for one in found.counts] == [
        ("retrieved but ignored", 9, 11),
        ("not retrieved", 3, 3),
        ("crashed", 1, 1),
    ]
    assert (found.samples, found.retrieval, found.generation) == (14, 3, 9)
    assert found.share is not None
    assert (found.share.low, found.share.high) == pytest.approx((0.0549, 0.5719), abs=1e-4)  # Clopper-Pearson, 3 of 12
    assert (
        PHRASES["count_causes"](found) == "9 of 14: retrieved but ignored; 3: not retrieved; 1: crashed; 1 unexplained"
    )
    assert diagnosis_of({}, confidence=0.95) is None


@pytest.mark.parametrize(
    ("retrieval", "generation", "side"),
    [
        (20, 2, Side.RETRIEVAL),
        (2, 20, Side.GENERATION),
        (6, 5, Side.BOTH),
        (8, 4, Side.RETRIEVAL),
        (4, 8, Side.GENERATION),
        (7, 4, Side.BOTH),
        (76, 46, Side.RETRIEVAL),
        (3, 1, None),
        (0, 0, None),
    ],
)
def test_the_half_is_that_of_most_causes_if_there_are_enough(
    retrieval: int, generation: int, side: Side | None
) -> None:
    found = diagnosis_of(counted(retrieval, generation), confidence=0.95)
    assert found is not None
    assert found.side is side


@pytest.mark.parametrize(
    ("change", "side", "says"),
    [
        (
            SampleChange(compared=True, evidence_lost=True),
            Side.RETRIEVAL,
            "Generation: faithfulness −0.51.",
        ),
        (
            SampleChange(compared=True, answer=JudgedAnswer(statements=2, unsupported=1)),
            Side.GENERATION,
            "Generation: faithfulness",
        ),
    ],
)
def test_the_causes_decide_the_half_whatever_the_metrics_are(change: SampleChange, side: Side, says: str) -> None:
    before, now = run({"faithfulness": [1.0] * 60}), run({"faithfulness": [0.49] * 60})
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})
    found = decide_gate(
        now, before, policy, changes_of=lambda ids, _: dict.fromkeys(ids, change)
    ).explanation.attribution
    assert found is not None
    assert found.side is side
    assert found.reason.startswith(says)
    share = "100 %" if side is Side.RETRIEVAL else "0 %"
    assert f"Of 60 samples with a known cause, {share} failed in retrieval (95" in found.reason
    assert found.cause is not None


@pytest.mark.heavy
def test_every_report_says_why_samples_got_worse(tmp_path: Path) -> None:
    root = make_project(tmp_path / "repo", n=20, policy="[metrics.faithfulness]\nmax_drop = 0.05\n")
    assert run_ragstone(["run", "--out", "before"], root).returncode == 0
    song = 'return {"answer": "Penguins sing song " + question[-3:-1] + " in the harbour.",'
    (root / "houses.py").write_text(SYSTEM.replace('return {"answer": fact,', song), encoding="utf-8")
    done = run_ragstone(["gate", "--baseline", "before", "--verbose"], root)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "20 of 20: retrieved but ignored." in said
    assert "Check that the contexts reach the prompt" in said
    assert re.search(r"0 % failed in retrieval \(95 % interval 0 % to 1\d\S* %\)", said), said
    out = root / "ragstone-run"
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (cause,) = report["explanation"]["diagnosis"]["counts"]
    assert (cause["cause"], len(cause["samples"]), cause["side"]) == ("ignored", 20, "generation")
    assert {sample["cause"] for sample in report["samples"]["worst"]} == {"retrieved but ignored"}
    for sample in report["samples"]["worst"]:
        facts = sample["facts"]
        assert (facts["evidence_lost"], facts["answer_unchanged"]) == (False, False)
        assert facts["answer"]["unsupported"] == facts["answer"]["statements"]
    assert report["explanation"]["attribution"]["side"] == "generation"
    for name in ("report.md", "report.html", "junit.xml"):
        assert "retrieved but ignored" in (out / name).read_text(encoding="utf-8"), name


def test_scores_without_records_have_no_causes() -> None:
    before = {"faithfulness": {f"q{i}": 0.9 for i in range(60)}}
    worse = {"faithfulness": {f"q{i}": 0.5 for i in range(60)}}
    verdict = ragstone.compare(worse, before, {"metrics": {"faithfulness": {"max_drop": 0.02}}})
    assert verdict.status == "fail"
    assert verdict.explanation.diagnosis is None
