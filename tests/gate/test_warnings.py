"""Warnings and notes of a verdict, and when there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts, VerdictCounts
from ragstone.gate.checks.quotes import Quotes
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping
from ragstone.gate.preference import preference_notes, preference_warnings
from ragstone.gate.quotes import quote_notes
from ragstone.gate.stability import variance_of, variance_words
from ragstone.gate.tool_names import uncalled_tools
from ragstone.gate.weak_languages import language_warnings
from ragstone.judge.offline.lexicon import load_data
from ragstone.metrics.pairwise import EQUAL, ORDER
from ragstone.system.response import NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import evidence_of, failed, named
from tests.gate.conftest import make_manifest as manifest

TEN = [1.0] * 10
OFFLINE = manifest(provider="offline")
FLOOR = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}})


def about(text: str, current: RunScores, baseline: RunScores | None = None, policy: Policy = FLOOR) -> list[str]:
    """The warnings and notes with this text."""
    verdict = decide_gate(current, baseline, policy)
    return [said for said in (*verdict.warnings, *verdict.notes) if text in said]


def faithful(**more: Any) -> RunScores:
    return run({"faithfulness": TEN}, **more)


@pytest.mark.parametrize(
    ("conversations", "takes_history", "says"),
    [(0, False, ""), (1, False, "1 sample of"), (2, False, "2 samples of"), (2, True, ""), (2, None, "")],
)
def test_conversations_of_which_the_system_got_the_last_question_only(
    conversations: int, takes_history: bool | None, says: str
) -> None:
    one = manifest()
    system = one.system.model_copy(update={"conversations": conversations, "takes_history": takes_history})
    found = about("earlier turns", faithful(manifest=one.model_copy(update={"system": system})))
    assert [text.startswith(says) for text in found] == [True] * bool(says)
    assert about("earlier turns", faithful()) == []


@pytest.mark.parametrize(
    ("judged", "text", "says"),
    [
        (None, None, "There is no policy file: the default rules apply. "),
        (manifest(), None, "There is no policy file: the default rules apply. "),
        (OFFLINE, None, "with the offline judge their floors only warn"),
        (OFFLINE, "[gate]\n", ""),  # that is for `ragstone check`
        (None, "[metrics.faithfulness]\nmin = 0.5\n", ""),
        (OFFLINE, FLOOR, ""),
    ],
)
def test_rules_that_apply_because_nothing_is_written(tmp_path: Path, judged: Any, text: Any, says: str) -> None:
    policy = text or default_policy()
    if isinstance(text, str):
        path = tmp_path / "thresholds.toml"
        path.write_text(text, encoding="utf-8")
        policy = load_policy(path)
    found = about("default rules apply", faithful(manifest=judged), None, policy)
    assert [says in one for one in found] == [True] * bool(says)


@pytest.mark.parametrize(
    ("metric", "tables", "warned"),
    [
        ("error_rate", {}, True),
        ("answerToxicity", {}, True),
        ("helpfulness", {}, False),
        ("hallucination", {}, False),  # Ragstone knows it
        ("error_rate", {"metrics": {"error_rate": {"max_rise": 0.02}}}, False),
        ("error_rate", {"metrics": {"error_rate": {"max_drop": 0.02}}}, False),
    ],
)
def test_scores_of_another_evaluator_that_sound_as_if_less_were_better(metric: str, tables: Any, warned: bool) -> None:
    found = about("Assuming higher is better", run({metric: TEN}), None, policy_from_mapping(tables))
    assert [f"[metrics.{metric}]" in one for one in found] == [True] * warned


RUBRIC = {"versions": {"tone": "rubric 1"}}
NOT_GRADED = {"not_applicable": {"tone": {"s0": "there is no language model"}}}


@pytest.mark.parametrize(
    ("scores", "more", "warned"),
    [
        ([], {"manifest": OFFLINE, **NOT_GRADED, **RUBRIC}, True),
        ([], {"manifest": manifest(), **NOT_GRADED, **RUBRIC}, False),
        ([], {**NOT_GRADED, **RUBRIC}, False),
        ([], {"manifest": OFFLINE, **NOT_GRADED}, False),
        ([], {"manifest": OFFLINE, "failed": {"tone": failed(["s0"])}, **RUBRIC}, False),
        (TEN, {"manifest": OFFLINE, **RUBRIC}, False),
    ],
    ids=["offline", "a language model", "unknown", "no rubric", "failed", "graded"],
)
def test_rubrics_that_the_judge_can_not_grade_by(scores: list[float], more: Any, warned: bool) -> None:
    assert bool(about("Not scored: tone", run({"faithfulness": TEN, "tone": scores}, **more))) is warned


def test_answers_without_the_texts_of_their_contexts() -> None:
    excused = {"recall@5": {"s0": NO_TEXTS, "s1": "there is no label"}}
    lost = {"recall@5": failed(["s2"], "system", NO_TEXTS) | failed(["s3"])}
    assert about("Of 2 answers", run({"faithfulness": TEN, "recall@5": []}, not_applicable=excused, failed=lost))
    assert about("only metrics with relevant_ids", faithful()) == []


NOTHING = hash(())


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (7, NOTHING, "and did in the baseline"),
        (NOTHING, NOTHING, "with any answer: return them"),
        (None, NOTHING, "with any answer: return them"),
        (7, 7, ""),
    ],
)
def test_a_system_that_returns_no_contexts_any_more_lost_them(before: int | None, now: int, says: str) -> None:
    def returning(contexts: int) -> RunScores:
        return replace(faithful(), system=SystemFacts(contexts=dict.fromkeys(named(10), contexts)))

    found = about("returned no contexts", returning(now), None if before is None else returning(before))
    assert [says in one for one in found] == [True] * bool(says)
    other = replace(returning(now), metrics=run({"mrr": TEN}).metrics)
    assert about("returned no contexts", other) == [], "no metric reads them"


MISSED = RankedContexts(missed_ids=("page-7",), other_ids=("b2f1",))


def ranked(missed: str, other: str, relevant: str = "") -> RankedContexts:
    return RankedContexts(missed_ids=(missed,), other_ids=(other,), relevant_ids=(relevant,) if relevant else ())


@pytest.mark.parametrize(
    ("rankings", "text", "names"),
    [
        *(
            ([RankedContexts(relevant_ids=("fine.md",)), ranked(label, other)], "are different ids", (label, other))
            for label, other in (
                *(("docs/w0.md", "w0.md"), ("w0.md", "docs/w0.md"), ("A.md", "a.md")),
                *(("a", "a#1"), ("a#1", "a"), ("1", "1.0"), ("./a", "a")),
            )
        ),
        ([MISSED, MISSED], "was ever returned", ("page-7", "b2f1")),
        # A retriever that misses documents has no other spelling.
        ([MISSED, RankedContexts(relevant_ids=("page-1",))], "", ()),
        ([ranked("README.md", "docs/README.md", "README.md")], "", ()),
        ([ranked("a.md", "b.md"), RankedContexts(relevant_ids=("b.md",))], "", ()),
        ([ranked("a.md#x", "a.md#y"), RankedContexts(relevant_ids=("b.md",))], "", ()),
        ([RankedContexts(missed_ids=("page-7",))], "", ()),
        ([RankedContexts()], "", ()),
    ],
)
def test_ids_that_were_never_returned(rankings: list[RankedContexts], text: str, names: Sequence[str]) -> None:
    current = replace(faithful(), system=SystemFacts(ranked=dict(zip(named(10), rankings, strict=False))))
    found = [one for part in ("are different ids", "was ever returned") for one in about(part, current)]
    assert [text in one for one in found] == [True] * bool(text)
    assert all(f"'{name}'" in found[0] for name in names)


def generated(count: int, metrics: Sequence[str]) -> RunScores:
    made = manifest()
    golden = made.golden.model_copy(update={"generated": count})
    return run(dict.fromkeys(metrics, TEN), manifest=made.model_copy(update={"golden": golden}))


HALF_WRONG = run({"faithfulness": TEN, "hallucination": [1.0] * 3 + [0.4] * 7})


@pytest.mark.parametrize(
    ("current", "says"),
    [
        (generated(5, ["faithfulness"]), ""),
        (generated(6, ["faithfulness", "recall@5"]), "6 of 10 questions were generated and not reviewed"),
        (generated(6, ["faithfulness", "recall@5"]), "drops of faithfulness deserve"),
        (generated(6, ["recall@5"]), ""),
        (HALF_WRONG, "the contexts don't say is in 3 of 10 answers"),
        (replace(HALF_WRONG, manifest=OFFLINE), ""),
        (run({"faithfulness": TEN, "hallucination": [0.4] * 10}), ""),
    ],
)
def test_footnotes(current: RunScores, says: str) -> None:
    texts = (says,) if says else ("generated and not", "contexts don't say")
    assert [bool(about(text, current)) for text in texts] == [bool(says)] * len(texts)


HALVES = ("context_precision", "context_precision_no_reference")
EXCUSED: dict[str, Any] = {"not_applicable": {"context_recall": dict.fromkeys(named(10), "there is no reference")}}


@pytest.mark.parametrize(
    ("current", "policy", "noted"),
    [
        (run({"faithfulness": TEN, "context_recall": []}, **EXCUSED), default_policy(), True),
        (
            run({"faithfulness": TEN, "context_recall": []}, **EXCUSED, failed={"context_recall": failed(["s11"])}),
            default_policy(),
            False,
        ),
        (run({"faithfulness": TEN, "context_recall": []}), default_policy(), False),
        (
            run({HALVES[0]: TEN, HALVES[1]: []}, not_applicable={HALVES[1]: dict.fromkeys(named(10), "so")}),
            default_policy(),
            False,
        ),
    ],
    ids=["nowhere", "where it applies it failed", "not judged", "the other half of its family"],
)
def test_a_metric_of_the_defaults_that_applies_to_nothing(current: RunScores, policy: Policy, noted: bool) -> None:
    found = about("applies to no sample, most often because there is no reference", current, None, policy)
    assert bool(found) is noted
    assert noted or about("applies to no sample", current, None, policy) == []


@pytest.mark.parametrize(("silent", "noted"), [(3, False), (4, True)])
def test_answers_that_stopped_claiming_anything_are_pointed_out(silent: int, noted: bool) -> None:
    excused = {"faithfulness": dict.fromkeys(named(silent, 60 - silent), "the answer abstains")}
    current = run({"faithfulness": [1.0] * (60 - silent)}, not_applicable=excused)
    found = about(f"no longer applies to {silent} of 60 samples", current, run({"faithfulness": [1.0] * 60}))
    assert ["abstains" in one for one in found] == [True] * noted


# -- quotes ------------------------------------------------------------------------------------------------------------


def quoting(*counts: VerdictCounts) -> RunScores:
    return replace(faithful(), system=SystemFacts(verdicts=dict(zip(named(10), counts, strict=False))))


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        ([VerdictCounts(8, unquoted=1), VerdictCounts(2)], "For 1 of 10 supported statements (10 %), the judge quoted"),
        ([*[VerdictCounts(4, disputed=2)] * 3, VerdictCounts(1)], "3 answers rest on contexts that other contexts"),
        ([VerdictCounts(4, disputed=2)], "1 answer rests on contexts that other contexts contradict"),
        ([VerdictCounts(8)], ""),
    ],
)
def test_what_supported_statements_rest_on(counts: list[VerdictCounts], begins: str) -> None:
    found = list(quote_notes(evidence_of(quoting(*counts))))
    assert [note.startswith(begins) for note in found] == [True] * bool(begins)


@pytest.mark.parametrize(
    ("allowed", "unquoted", "status"), [(0.1, 1, "pass"), (0.09, 1, "error"), (0.0, 1, "error"), (None, 10, None)]
)
def test_a_policy_may_demand_quotes(allowed: float | None, unquoted: int, status: str | None) -> None:
    gate = {} if allowed is None else {"max_unquoted": allowed}
    found = list(Quotes().evaluate(evidence_of(quoting(VerdictCounts(10, unquoted=unquoted)), gate=gate)))
    assert [(check.status, check.blocks, check.estimate) for check in found] == [(status, True, 0.1)] * bool(status)
    assert list(Quotes().evaluate(evidence_of(quoting(), gate=gate))) == []


# -- tools, languages, preference --------------------------------------------------------------------------------------

ORDERED, SEARCH, REFUND = "lookup_ordr", "search or browse", "refund"


@pytest.mark.parametrize(
    ("expected", "called", "is_whole_run", "says"),
    [
        ([ORDERED, SEARCH], {"lookup_order", "browse"}, True, "'lookup_ordr' (did you mean 'lookup_order'?)"),
        ([ORDERED, REFUND], {"lookup_order"}, False, "'lookup_ordr' (did you mean 'lookup_order'?)"),
        ([REFUND, REFUND, SEARCH], {"weather"}, True, "'refund', 'search or browse'"),
        (["lookup_orders", "lookup_order"], {"lookup_order"}, True, "'lookup_orders'."),
        ([REFUND], set(), True, "no answer has one"),
        ([REFUND], set(), False, ""),
        ([], set(), True, ""),
        ([REFUND], {"refund"}, True, ""),
    ],
)
def test_expected_tools_that_were_never_called(
    expected: list[str], called: set[str], is_whole_run: bool, says: str
) -> None:
    found = list(uncalled_tools(expected, called, is_whole_run=is_whole_run))
    assert [says in sentence for sentence in found] == [True] * bool(says)


CHINESE = "灯塔在哪里？"
ACCURACY = f"{100 * load_data('reliability.json')['languages']['zh']:.0f} %"


@pytest.mark.parametrize(
    ("question", "judged", "says"),
    [
        ("Where is the lighthouse?", OFFLINE, ()),
        ("Wo steht der Leuchtturm?", OFFLINE, ()),
        ("Où se trouve le phare ?", OFFLINE, ()),
        ("Dónde está el faro y quién lo hizo?", OFFLINE, ()),
        (CHINESE, OFFLINE, ("Questions are in Chinese", ACCURACY)),
        ("Где находится маяк?", OFFLINE, ("Questions are in a language in Cyrillic script", "never measured")),
        (CHINESE, manifest(), ()),
        (CHINESE, None, ()),
    ],
)
def test_a_language_in_which_the_offline_judge_is_weak(
    question: str, judged: Manifest | None, says: tuple[str, ...]
) -> None:
    asked = faithful(manifest=judged)
    asked = replace(asked, samples={name: replace(one, question=question) for name, one in asked.samples.items()})
    found = list(language_warnings(evidence_of(asked)))
    assert len(found) == bool(says)
    assert all(part in found[0] for part in says)
    assert list(language_warnings(evidence_of(replace(asked, metrics=run({"mrr": TEN}).metrics)))) == []


RULE: dict[str, Any] = {"metrics": {"pairwise_preference": {"min": 0.4}}}


def preferred(*scores: float, equal: int = 0, order: int = 0, other: int = 0) -> RunScores:
    reasons = [EQUAL] * equal + [ORDER] * order + ["there is no language model"] * other
    excused = dict(zip(named(len(reasons), len(scores)), reasons, strict=True))
    return run({"pairwise_preference": scores}, not_applicable={"pairwise_preference": excused})


@pytest.mark.parametrize(
    ("current", "note", "warning"),
    [
        (
            preferred(1.0, 1.0, 0.0, equal=1, order=2),
            "Of 6 changed answers, 2 are better than the baseline's, 1 worse, 3 tied",
            "",
        ),
        (preferred(*[1.0] * 8), "8 are better than the baseline's, 0 worse, 0 tied (exact sign test: p = 0.0078)", ""),
        (
            preferred(equal=2),
            "Of 2 changed answers, 0 are better than the baseline's, 0 worse, 2 tied. The judge's",
            "",
        ),
        (preferred(other=3), "", "pairwise_preference was not checked: there is no language model."),
        (run({"faithfulness": TEN}), "", ""),
    ],
)
def test_answers_that_were_compared_with_those_of_the_baseline(current: RunScores, note: str, warning: str) -> None:
    evidence = evidence_of(current, **RULE)
    assert [note in text for text in preference_notes(evidence)] == [True] * bool(note)
    assert list(preference_warnings(evidence)) == ([warning] if warning else [])
    assert list(preference_warnings(evidence_of(current))) == [], "nothing is asked of it"


# -- what varies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "draws", "says"), [(2, 0.04, "system"), (1, 0.05, "system and judge")])
def test_the_variance_is_split_between_samples_system_and_judge(rounds: int, draws: float, says: str) -> None:
    random = np.random.default_rng(3)
    readings = {}
    for sample in named(400):
        answers = random.normal(0.5, 0.3) + random.normal(0.0, 0.2, 3)
        readings[sample] = tuple(tuple(answer + random.normal(0.0, 0.1, rounds)) for answer in answers)
    parts = variance_of(MetricScores({}, readings=readings))
    assert parts is not None
    assert (parts.units, parts.draws) == pytest.approx((0.09, draws), rel=0.2)
    assert parts.readings == (pytest.approx(0.01, rel=0.2) if rounds > 1 else None)
    sources = ["samples", says, "judge"][: 1 + rounds]
    assert [word.rsplit(" ", 2)[0] for word in variance_words(parts).split(", ")] == sources
    assert variance_of(MetricScores({"a": 1.0, "b": 0.5})) is None


def test_the_report_names_the_samples_with_answers_on_both_sides_of_a_floor() -> None:
    answers = [(1.0, 1.0, 1.0)] * 17 + [(0.2, 0.2, 0.2), (1.0, 0.2, 1.0), (0.2, 1.0, 0.2)]
    one = run({"faithfulness": answers}, manifest=manifest(answers=3))
    scores = one.metrics["faithfulness"]
    readings: dict[str, tuple[tuple[float, ...], ...]]
    readings = {name: tuple((value,) for value in each if value is not None) for name, each in scores.answers.items()}
    found = about("faithfulness: ", replace(one, metrics={"faithfulness": replace(scores, readings=readings)}))
    assert found[0].startswith("Sources of the variance of a score: faithfulness: samples")
    assert found[1:] == [
        "faithfulness: 2 of 20 samples have answers that meet min = 0.50 and answers that do not "
        "(s19: 1 of 3 answers pass, s18: 2 of 3 answers pass)."
    ]
