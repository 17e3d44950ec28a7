"""One cause for each worse sample, what to do about it, and its part in the attribution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.gate.decide import decide_gate
from ragstone.gate.diagnosis import Cause, catalogue, causes_of, diagnosis_of, was_asked
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.retrieval_changes import samples_with_worse_retrieval
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
from tests.gate.conftest import build_run, decide, evidence_of

# -- from what became of a sample to its causes ------------------------------------------------------------------------

GOOD_ANSWER = JudgedAnswer(statement_count=2, reference_statement_count=2, stated_count=2)
SILENT = JudgedAnswer(abstains=True)
UNLIKE = JudgedAnswer(statement_count=1, reference_statement_count=2, is_unlike_reference=True, ignored_count=2)


def change(answer: Any = GOOD_ANSWER, before: JudgedAnswer | None = GOOD_ANSWER, **facts: Any) -> SampleChange:
    """What became of a sample, compared unless `before` is None."""
    if before is None:
        return SampleChange(answer=answer, **facts)
    return SampleChange(is_compared=True, answer=answer, baseline_answer=before, **facts)


def worse(**facts: Any) -> JudgedAnswer:
    return replace(GOOD_ANSWER, **facts)


@pytest.mark.parametrize(
    ("found", "causes"),
    [
        (change(has_failed=True, has_lost_evidence=True), "crashed"),
        (change(has_lost_evidence=True), "not_retrieved"),
        (change(worse(stated_count=0), has_lost_evidence=True, evidence_ranks_lower=True), "not_retrieved incomplete"),
        (
            change(worse(unsupported_count=1), has_lost_evidence=True, is_answer_unchanged=True),
            "not_retrieved invented",
        ),
        (change(worse(unsupported_count=1), is_answer_unchanged=True), ""),
        (change(worse(unsupported_count=1), None, lacks_contexts=True), "no_contexts invented"),
        (change(worse(unsupported_count=1), evidence_ranks_lower=True), "invented ranked_low"),
        (
            change(worse(unsupported_count=1), evidence_ranks_lower=True, is_low_evidence_unused=True),
            "ranked_low invented",
        ),
        (change(replace(SILENT, is_empty=True)), "empty"),
        (change(SILENT, None), "evasive"),
        (change(SILENT, JudgedAnswer(is_empty=True)), ""),
        (change(worse(is_in_foreign_language=True)), "language"),
        (change(worse(contradicted_count=1, unsupported_count=1)), "contradicted invented"),
        (change(worse(unsupported_count=1), worse(unsupported_count=1)), ""),
        (change(worse(unsupported_count=2, ignored_count=1)), "ignored invented"),
        (change(worse(unsupported_count=2, ignored_count=1), worse(unsupported_count=2)), ""),
        (change(worse(unsupported_count=2, ignored_count=1), worse(ignored_count=1)), "invented"),
        (change(worse(unsupported_count=1, ignored_count=1)), "invented"),
        (change(worse(statement_count=0, ignored_count=1)), ""),
        (change(worse(stated_count=1)), "incomplete"),
        (change(worse(stated_count=1), worse(stated_count=1)), ""),
        (change(worse(stated_count=1), worse(stated_count=1, reference_statement_count=3)), ""),
        (
            change(worse(stated_count=1), JudgedAnswer()),
            "incomplete",
        ),  # the baseline's was not compared with the reference
        (change(worse(stated_count=1), None), "incomplete"),
        (change(replace(UNLIKE, is_on_another_question=True), UNLIKE), ""),
        (change(replace(UNLIKE, ignores_useful_contexts=True)), "ignored"),
        (change(replace(UNLIKE, ignores_useful_contexts=True, ignored_count=0)), "incomplete"),
        (change(UNLIKE), "incomplete"),
        (change(GOOD_ANSWER, None, is_answerable=False), "invented"),
        (change(SILENT, None, is_answerable=False), ""),
        (change(GOOD_ANSWER, SILENT, is_answerable=False), "invented"),
        (change(GOOD_ANSWER, is_answerable=False), ""),
        (change(worse(unsupported_count=1), is_answerable=False), "invented"),
    ],
)
def test_the_causes_of_a_sample(found: SampleChange, causes: str) -> None:
    assert " ".join(causes_of(found)) == causes


# -- from two records to what became of a sample -----------------------------------------------------------------------

EVIDENCE = "The warranty of the Arden pump lasts five years from the day of purchase."
OTHERS = (
    "Opening hours on Sundays differ between the northern branches and the harbour.",
    "Invoices are sent by letter unless the customer has asked for something else.",
    "Returned goods are inspected in the warehouse before money is paid back.",
)
LAST = (*OTHERS, EVIDENCE)
SAMPLE = Sample("q", "How long is the warranty?", reference="Five years.", reference_contexts=(EVIDENCE,))
S, U, C = Verdict.SUPPORTED, Verdict.UNSUPPORTED, Verdict.CONTRADICTED
HELD = ((S, ("c1",)),)


def record(
    verdicts: Sequence[tuple[Verdict, tuple[str, ...]]] = HELD,
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
    support = SupportTable(tuple(Support(f"s{at}", verdict, by) for at, (verdict, by) in enumerate(verdicts, 1)))
    use = ContextUse(
        tuple(ContextUsefulness(f"c{at}", one) for at, one in enumerate(useful, 1)),
        against_reference=True,
        reference_statements=(Statement("r1", "…"),),
        attributions=(Support("r1", S if held else U, held),),
    )
    match = ReferenceMatch(
        (Statement("r1", "…"), Statement("r2", "…")),
        tuple(Support(one.id, S if backed else U) for one in statements),
        (Support("r1", S if said or backed else U), Support("r2", S if said else U)),
    )
    judged = Judgements(
        statements=StatementList(() if abstains else statements, abstains=abstains),
        support=None if abstains else support,
        context_use=use if contexts else None,
        reference_match=None if abstains else match,
        reverse_questions=ReverseQuestions(("?",), (similarity,)),
    )
    response = Response("q", answer, tuple(Context(text) for text in contexts))
    return SampleRecord(sample, (Answer(response, (judged,)),), {})


def cause_of(now: SampleRecord, before: SampleRecord | None = None) -> Cause | None:
    return next(iter(causes_of(sample_change(now, before))), None)


def answering(text: str, verdict: Verdict = U) -> SampleRecord:
    return record([(verdict, ())], answer=text, said=verdict is S)


def with_judgements(found: SampleRecord, **changed: Any) -> SampleRecord:
    answer = found.answers[0]
    return dataclasses.replace(
        found,
        answers=(dataclasses.replace(answer, judgements=(dataclasses.replace(answer.judgements[0], **changed),)),),
    )


def crashed(kind: SystemFailureKind = SystemFailureKind.TIMEOUT) -> SampleRecord:
    return dataclasses.replace(GOOD, answers=(Answer(Response("q", failure=SystemFailure(kind, "No answer."))),))


GOOD = record()
FOREIGN = "Die Garantie gilt für fünf Jahre ab dem Tag des Kaufs."
LONG = record(answer="The warranty lasts five years. It begins on the day of purchase.")
UNANSWERABLE = dataclasses.replace(SAMPLE, answerable=False)
BARE = dataclasses.replace(GOOD, answers=(Answer(GOOD.response, ()),))
WITHOUT_CONTEXTS = record([(U, ())], contexts=(), said=False)
UNSAID: dict[str, Any] = {"said": False, "backed": False}
WORSE = record([(U, ())], said=False)
SAME_WORDS = dataclasses.replace(WORSE, answers=(dataclasses.replace(WORSE.answers[0], response=GOOD.response),))


@pytest.mark.parametrize(
    ("now", "before", "cause"),
    [
        pytest.param(BARE, BARE, None, id="without judgements"),
        pytest.param(crashed(), GOOD, "crashed", id="a failure comes first"),
        pytest.param(GOOD, crashed(), None, id="a failure of the baseline"),
        pytest.param(record(contexts=OTHERS, **UNSAID), GOOD, "not_retrieved", id="missing"),
        pytest.param(record(contexts=OTHERS, **UNSAID), None, "not_retrieved", id="missing from the start"),
        pytest.param(record(contexts=LAST, **UNSAID), GOOD, "ranked_low", id="low"),
        pytest.param(record(contexts=LAST, **UNSAID), None, "ranked_low", id="low from the start"),
        pytest.param(record(contexts=(OTHERS[0], EVIDENCE), **UNSAID), None, "ignored", id="second is not low"),
        pytest.param(record(contexts=(*OTHERS[:2], EVIDENCE), **UNSAID), None, "ranked_low", id="third is"),
        pytest.param(record([(U, ())], contexts=LAST), record([(S, ("c4",))], contexts=LAST), "invented", id="low too"),
        # A lower rank is no cause where the answer draws on the evidence anyway.
        pytest.param(record([(S, ("c4",)), (U, ())], contexts=LAST), GOOD, "invented", id="low and drawn on"),
        pytest.param(record([(S, ("c4",))], contexts=LAST), GOOD, "ranked_low", id="low alone"),
        pytest.param(record([(C, ()), *HELD]), GOOD, "contradicted", id="contradicts"),
        pytest.param(record([(U, ()), (U, ())], **UNSAID), GOOD, "ignored", id="ignores the contexts"),
        pytest.param(record([(S, ("c2",))], **UNSAID), GOOD, "ignored", id="from other passages"),
        pytest.param(record([*HELD, (U, ())]), GOOD, "invented", id="adds to them"),
        pytest.param(record(abstains=True), record(abstains=True, answer="No idea."), None, id="abstained before"),
        pytest.param(record([], answer="## -"), record([], answer="- ##"), None, id="empty before too"),
        pytest.param(record(similarity=SUPPORTED_FROM, **UNSAID), GOOD, "incomplete", id="the same question"),
        pytest.param(record(similarity=0.2), GOOD, None, id="like the reference"),
        pytest.param(answering(FOREIGN), GOOD, "language", id="another language"),
        pytest.param(answering("Die Garantie gilt fünf."), GOOD, "invented", id="too short to tell the language"),
        pytest.param(answering("The warranty lasts five"), LONG, "cut", id="cut"),
        pytest.param(answering("The warranty lasts five..."), LONG, "cut", id="cut with dots"),
        pytest.param(answering("A warranty lasts five"), LONG, "invented", id="begins otherwise"),
        pytest.param(answering(LONG.response.answer[:-1]), answering(LONG.response.answer[:-1], S), None, id="whole"),
        pytest.param(record(sample=UNANSWERABLE), None, "invented", id="answers what can't be answered"),
        pytest.param(WITHOUT_CONTEXTS, None, "no_contexts", id="a system that returns none"),
        pytest.param(WITHOUT_CONTEXTS, WITHOUT_CONTEXTS, None, id="returned none before"),
        pytest.param(WITHOUT_CONTEXTS, GOOD, "not_retrieved", id="returned some before"),
        # What the judge says otherwise of the same words comes from other contexts, or from the judge.
        pytest.param(answering("Five years."), answering("Five years.", S), None, id="the same answer"),
        pytest.param(SAME_WORDS, WORSE, None, id="no worse"),
    ],
)
def test_the_cause_beside_a_baseline(now: SampleRecord, before: SampleRecord | None, cause: str | None) -> None:
    assert cause_of(now, before) == cause


@pytest.mark.parametrize("use", ["as it was", "of the answer", "of nothing"])
def test_what_contexts_support_of_the_answer_says_nothing_of_the_reference(use: str) -> None:
    judged = record(contexts=OTHERS, sample=dataclasses.replace(SAMPLE, reference_contexts=()))
    found = judged.answers[0].judged.context_use
    assert isinstance(found, ContextUse)
    if use == "of the answer":
        found = dataclasses.replace(found, against_reference=False)
    elif use == "of nothing":
        found = dataclasses.replace(found, attributions=())
    assert sample_change(with_judgements(judged, context_use=found)).has_lost_evidence is (use == "as it was")


LABELLED = dataclasses.replace(SAMPLE, reference_contexts=(), relevant_ids={"p7": 1.0, "p0": 0.0})


def returning(*ids: str, text: str = "…", supported: bool | None = None) -> SampleRecord:
    """A sample with relevant ids, an answer that invents, and contexts with these ids."""
    found = record([(U, ())], sample=LABELLED)
    use = None
    if supported is not None:
        use = ContextUse((), against_reference=True, attributions=(Support("r1", S if supported else U),))
    found = with_judgements(found, context_use=use)
    contexts = tuple(Context(text, name) for name in ids)
    return dataclasses.replace(
        found, answers=(dataclasses.replace(found.answers[0], response=Response("q", "No.", contexts)),)
    )


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        (returning("p1", "p7"), False),
        (returning("p1", "p0"), True),
        (returning("p1", "p7", supported=False), True),  # cut, for example
        (returning("p1", supported=True), False),  # another context may say the same
        (returning("p1", supported=False), True),
        (returning(supported=None), False),  # a system that returns nothing
        (returning("p1", "p7", text=""), False),
        (returning("p1", text=""), True),
        (dataclasses.replace(returning("p1", text=""), sample=dataclasses.replace(LABELLED, relevant_ids={})), False),
    ],
)
def test_labels_say_whether_the_evidence_is_there(now: SampleRecord, lost: bool) -> None:
    assert sample_change(now).has_lost_evidence is lost


def test_names_without_texts_blame_the_retriever_only_by_their_ids() -> None:
    """The texts of the evidence can't be found where there are none."""
    missed, hit = returning("p1", "p2", text=""), returning("p7", text="")
    assert cause_of(missed, hit) is Cause.NOT_RETRIEVED
    assert cause_of(missed, missed) is not Cause.NOT_RETRIEVED
    for before in (missed, hit):
        assert cause_of(hit, before) is not Cause.NOT_RETRIEVED
    named = dataclasses.replace(missed, sample=SAMPLE)
    assert cause_of(named, GOOD) is not Cause.NOT_RETRIEVED


def test_a_recorded_answer_that_is_missing_says_nothing_of_the_system() -> None:
    missing, late = crashed(SystemFailureKind.MISSING), crashed(SystemFailureKind.TIMEOUT)
    assert [was_asked(missing), was_asked(late)] == [False, True]
    assert was_asked(GOOD)


# -- the sum of all ----------------------------------------------------------------------------------------------------


def test_every_cause_has_a_title_an_action_and_a_source() -> None:
    assert set(catalogue()) == set(Cause)
    for known in catalogue().values():
        assert set(known) == {"title", "side", "changed", "short", "action", "source"}
        assert known["source"].startswith("https://")


def test_causes_are_counted() -> None:
    causes: dict[str, tuple[Cause, ...]] = {f"q{at}": (Cause.IGNORED,) for at in range(9)}
    causes |= {f"r{at}": (Cause.NOT_RETRIEVED, Cause.IGNORED)[: 1 + at] for at in range(3)}
    found = diagnosis_of({**causes, "x": (), "y": (Cause.CRASHED,)})
    counts = [(one.title, one.count, one.seen) for one in found.counts]
    assert counts == [("retrieved but ignored", 9, 11), ("not retrieved", 3, 3), ("crashed", 1, 1)]
    assert (found.samples, found.count_of(Side.RETRIEVAL), found.count_of(Side.GENERATION)) == (14, 3, 9)
    counted = "9 of 14: retrieved but ignored; 3: not retrieved; 1: crashed; 1 unexplained"
    assert PHRASES["count_causes"](found) == counted
    assert decide(build_run({"faithfulness": [1.0]})).explanation.diagnosis is None


@pytest.mark.parametrize(
    ("retrieval", "generation", "side", "cause"),
    [
        (6, 5, Side.BOTH, "not_retrieved"),
        (8, 4, Side.RETRIEVAL, "not_retrieved"),
        (4, 8, Side.GENERATION, "invented"),
        (7, 4, Side.BOTH, "not_retrieved"),
        (4, 7, Side.BOTH, "invented"),
        (4, 1, Side.RETRIEVAL, None),
        (3, 1, None, None),
        (0, 0, None, None),
    ],
)
def test_the_half_is_that_of_most_causes_if_there_are_enough(
    retrieval: int, generation: int, side: Side | None, cause: str | None
) -> None:
    causes: dict[str, tuple[Cause, ...]] = {f"r{at}": (Cause.NOT_RETRIEVED,) for at in range(retrieval)}
    causes |= {f"g{at}": (Cause.INVENTED,) for at in range(generation)}
    found = diagnosis_of({**causes, "x": ()})
    assert found.side is side
    most = found.cause(side or Side.UNCLEAR)
    assert (None if most is None else most.cause) == cause


@pytest.mark.parametrize(
    ("became", "side"),
    [
        (SampleChange(is_compared=True, has_lost_evidence=True), "retrieval"),
        (change(worse(unsupported_count=1)), "generation"),
    ],
)
def test_the_causes_decide_the_half_whatever_the_metrics_are(became: SampleChange, side: str) -> None:
    before, now = build_run({"faithfulness": [1.0] * 60}), build_run({"faithfulness": [0.49] * 60})
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})
    explanation = decide_gate(now, before, policy, changes_of=lambda ids, _: dict.fromkeys(ids, became)).explanation
    found = explanation.attribution
    assert found is not None
    assert found.side == side
    share = "100 %" if side == "retrieval" else "0 %"
    assert found.reason == f"Of 60 samples with a known cause, {share} failed in retrieval."
    assert found.cause is not None
    assert decide(now, before, metrics={"faithfulness": {"max_drop": 0.02}}).explanation.diagnosis is None


@pytest.mark.parametrize(
    ("metric", "now", "fell"),
    [
        ("context_recall", [0.94, 0.96, 1.0], {"s0"}),
        ("faithfulness", [0.0, 0.0, 0.0], set()),
        ("politeness", [0.0, 0.0, 0.0], set()),
    ],
)
def test_whose_retrieval_fell(metric: str, now: list[float], fell: set[str]) -> None:
    pairing = evidence_of(build_run({metric: now}), build_run({metric: [1.0] * 3})).pairing
    assert pairing is not None
    assert samples_with_worse_retrieval(pairing) == fell
