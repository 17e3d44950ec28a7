"""When the judge moves: seen, told first, and not blamed on the code."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from scipy.stats import binom

from ragstone.evaluation.round_facts import CanaryCounts, JudgeFacts, Observed, RoundFacts
from ragstone.evaluation.rounds.judge_watch import DEFAULT_CANARY_COUNT
from ragstone.evaluation.scores import RunScores
from ragstone.gate.judge_drift import MAX_P_STEADY, MAX_STEADY_SHARE, is_judge_changed, model_warnings
from ragstone.gate.observed_judge import quoted
from ragstone.gate.verdict import Side, Status
from tests.gate.conftest import build_run, decide, evidence_of, make_manifest


def seen(*models: str, ways: tuple[str, ...] = ("json_schema",)) -> Observed:
    return Observed(models=models, ways=ways)


def run(*, score: float = 0.9, observed: Any = None, canaries: Any = None, **more: Any) -> RunScores:
    built = build_run({"faithfulness": [score] * 40}, manifest=make_manifest().model_copy(update=more))
    return replace(built, rounds=RoundFacts(JudgeFacts(observed=observed, canaries=canaries)))


DATED, OLDER = seen("judge-1-2026-09-01"), seen("judge-1-2026-03-01")


@pytest.mark.parametrize(
    ("now", "then", "compared", "warned"),
    [
        (DATED, OLDER, False, ("'judge-1-2026-09-01' now and was 'judge-1-2026-03-01' before",)),
        (seen("x", ways=("prompt",)), seen("x"), False, ("'prompt' now and was 'json_schema' before",)),
        (seen("a"), seen("a", "b"), True, ()),  # the baseline was judged by both
        (None, seen("a"), True, ()),
        (seen("a"), None, True, ()),
        (Observed(), seen("a"), True, ()),
        (seen("a"), Observed(), True, ()),
    ],
)
def test_another_name_is_another_judge(now: Any, then: Any, compared: bool, warned: tuple[str, ...]) -> None:
    verdict = decide(run(observed=now), run(observed=then))
    assert verdict.comparability is not None
    assert ("faithfulness" in verdict.comparability.metrics) is compared
    texts = [text for text in verdict.warnings if "judge's" in text or "the judge '" in text]
    assert bool(texts) is bool(warned)
    assert all(part in " ".join(texts) for part in warned)


def canaries(differing: int, asked: int = DEFAULT_CANARY_COUNT, **more: Any) -> CanaryCounts:
    return CanaryCounts(asked=asked, differing=differing, supported_then=18, supported_now=18 - differing, **more)


def test_a_judge_that_moved_is_the_first_warning() -> None:
    verdict = decide(run(score=0.3, canaries=canaries(3)), run())
    assert verdict.status is Status.FAIL
    assert "3 of 20 verdicts differ" in verdict.warnings[0]
    assert "(supported: 18 then, 15 now)" in verdict.warnings[0]
    attribution = verdict.explanation.attribution
    assert attribution is not None
    assert (attribution.side, "judge" in attribution.reason) == (Side.UNCLEAR, True)


@pytest.mark.parametrize("found", [canaries(1, unanswered=2), None])
def test_a_verdict_or_two_that_differ_are_no_warning(found: CanaryCounts | None) -> None:
    verdict = decide(run(score=0.3, canaries=found), run())
    assert not any("judge" in warning for warning in verdict.warnings)
    attribution = verdict.explanation.attribution
    assert attribution is not None
    assert attribution.side is Side.GENERATION


@pytest.mark.parametrize(("scored_by", "warned"), [("judge-1-2025-01-01", True), ("new", False), ("", False)])
def test_a_name_that_means_another_model_now_is_told(scored_by: str, warned: bool) -> None:
    observed = seen(*[scored_by] if scored_by else [])
    verdict = decide(run(observed=observed, canaries=canaries(0, models=("new",))), run(observed=observed))
    said = f"replies as 'new', but this run was scored by '{scored_by}'"
    assert any(said in warning for warning in verdict.warnings) is warned


def test_a_steady_judge_is_accused_in_fewer_runs_than_the_page_says_and_one_that_moved_is_seen_as_it_says() -> None:
    """docs/llm-judges.md: under 1 of 100 nights; a quarter of verdicts moved, in 9 of 10 nights; a tenth, in 1 of 3."""
    needed = next(k for k in range(DEFAULT_CANARY_COUNT + 1) if is_judge_changed(canaries(k)))
    assert needed == 3

    def published(share: float) -> float:
        return float(binom.sf(needed - 1, DEFAULT_CANARY_COUNT, share))

    assert published(MAX_STEADY_SHARE) < 0.01 < MAX_P_STEADY
    assert 0.90 < published(0.25) < 0.92
    assert 0.30 < published(0.10) < 0.35


AZURE = "https://x.openai.azure.com/openai/deployments/judge?api-version=2026-01-01"


@pytest.mark.parametrize(
    ("asked", "replied", "provider", "news"),
    [
        ("gpt-5.4-mini", "gpt-3.5-turbo-0125", "openai", True),
        ("gpt-5.4", "gpt-5.4-mini", "openai", True),
        ("llama3:8b", "llama3:70b", "openai-compatible", True),
        ("gpt-5.4-mini", "gpt-5.4-mini-2026-03-01", "openai", False),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "anthropic", False),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001", "bedrock", False),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", "claude-haiku-4-5", "bedrock", False),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5-20251001", "vertex", False),
        ("qwen3-8b", "/models/Qwen3-8B.gguf", "openai-compatible", False),
        ("llama3", "llama3:latest", "openai-compatible", False),
        ("judge", "gpt-5.4-mini-2026-03-01", "azure", False),  # a deployment is named by its owner
    ],
)
def test_a_model_that_was_not_asked_for_is_said(asked: str, replied: str, provider: str, news: bool) -> None:
    judge = dataclasses.replace(make_manifest().judge, provider=provider, model=asked)
    if provider == "azure":
        judge = dataclasses.replace(judge, provider="openai", endpoint=AZURE)
    found = list(model_warnings(evidence_of(run(judge=judge, observed=seen(replied)))))
    assert [f"'{asked}', but '{replied}' replied" in text for text in found] == [True] * news


@pytest.mark.parametrize(
    ("provider", "replied", "before", "news"),
    [
        ("openai-compatible", "qwen3-8b", seen("qwen3-8b"), False),  # an alias of an own server
        ("openai-compatible", "qwen3-0.6b", seen("qwen3-8b"), True),
        ("openai-compatible", "qwen3-8b", None, True),
        ("openai", "qwen3-8b", seen("qwen3-8b"), True),
    ],
)
def test_an_alias_that_the_baseline_saw(provider: str, replied: str, before: Observed | None, news: bool) -> None:
    judge = dataclasses.replace(make_manifest().judge, provider=provider, model="judge")
    then = run(judge=judge, observed=before)
    assert bool(list(model_warnings(evidence_of(run(judge=judge, observed=seen(replied)), then)))) is news


def test_many_names_are_counted() -> None:
    assert quoted(("a", "b", "c")) == "'a', 'b', 'c'"
    assert quoted(("a", "b", "c", "d")) == "'a', 'b', 'c' and 1 more"
