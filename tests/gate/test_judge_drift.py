"""When the judge moves: seen, told first, and not blamed on the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom

from ragstone.evaluation.round_facts import Canaries, JudgeFacts, Observed, RoundFacts
from ragstone.evaluation.rounds.judge_watch import CANARIES
from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import Level
from ragstone.gate.judge_drift import ALPHA, STEADY, moved
from ragstone.gate.policy import default_policy
from ragstone.gate.verdict import GateVerdict, Side, Status
from tests.gate.conftest import build_run, make_manifest


def seen(*models: str, fingerprints: tuple[str, ...] = (), ways: tuple[str, ...] = ("json_schema",)) -> Observed:
    return Observed(models=models, fingerprints=fingerprints, ways=ways)


def run(
    values: list[float], *, observed: Observed | None = None, canaries: Canaries | None = None, **more: Any
) -> RunScores:
    built = build_run({"faithfulness": values}, manifest=make_manifest().model_copy(update=more))
    return replace(built, rounds=RoundFacts(JudgeFacts(observed=observed, canaries=canaries)))


AZURE = "https://x.openai.azure.com/openai/deployments/judge?api-version=2026-01-01"
GOOD, BAD = [0.9] * 40, [0.3] * 40


def compared(verdict: GateVerdict) -> bool:
    assert verdict.comparability is not None
    return "faithfulness" in verdict.comparability.metrics


@pytest.mark.parametrize(
    ("now", "then", "says"),
    [
        (seen("judge-1-2026-09-01"), seen("judge-1-2026-03-01"), ("judge-1-2026-09-01", "judge-1-2026-03-01")),
        (seen("x", ways=("prompt",)), seen("x"), ("'prompt'", "'json_schema'")),
    ],
)
def test_another_name_or_another_way_of_asking_is_another_judge(
    now: Observed, then: Observed, says: tuple[str, str]
) -> None:
    verdict = decide_gate(run(GOOD, observed=now), run(GOOD, observed=then), default_policy())
    assert not compared(verdict)
    assert any(says[0] in text and says[1] in text for text in verdict.warnings)


@pytest.mark.parametrize(
    ("now", "then", "noted"),
    [
        (seen("a"), seen("a"), ""),
        (seen("a"), seen("a", "b"), ""),  # the baseline was judged by both
        (None, seen("a"), ""),
        (seen("a"), None, ""),
        (Observed(), seen("a"), ""),
        (seen("a"), Observed(), ""),
        (seen("a", fingerprints=("fp_2",)), seen("a", fingerprints=("fp_1",)), "fp_2"),  # another backend
    ],
)
def test_the_same_judge_or_an_unknown_one_is_compared(now: Any, then: Any, noted: str) -> None:
    verdict = decide_gate(run(GOOD, observed=now), run(GOOD, observed=then), default_policy())
    assert compared(verdict)
    assert any(noted in note for note in verdict.notes) is bool(noted)
    assert not any("fp_2" in warning for warning in verdict.warnings)


def canaries(differing: int, asked: int = CANARIES, **more: Any) -> Canaries:
    return Canaries(asked=asked, differing=differing, supported_then=18, supported_now=18 - differing, **more)


def test_a_judge_that_moved_is_the_first_warning_with_an_interval() -> None:
    verdict = decide_gate(run(BAD, canaries=canaries(3)), run(GOOD), default_policy())
    assert verdict.status is Status.FAIL
    assert "3 of 20 verdicts differ" in verdict.warnings[0]
    assert "(95 % interval 3.2 % to 37.9 %; supported: 18 then, 15 now)" in verdict.warnings[0]
    assert verdict.explanation.attribution is not None
    assert verdict.explanation.attribution.side is Side.UNCLEAR
    assert "judge" in verdict.explanation.attribution.reason


def test_a_verdict_or_two_that_differ_are_a_note() -> None:
    verdict = decide_gate(run(BAD, canaries=canaries(1, unanswered=2)), run(GOOD), default_policy())
    assert not any("judge" in warning for warning in verdict.warnings)
    assert any("1 of 20 verdicts differs" in note for note in verdict.notes)
    assert any("2 of the repeated judgements failed" in note for note in verdict.notes)
    assert verdict.explanation.attribution is not None
    assert "judge itself" not in verdict.explanation.attribution.reason


def test_a_name_that_means_another_model_now_is_told_although_all_scores_were_kept() -> None:
    now = run(GOOD, observed=seen("judge-1-2025-01-01"), canaries=canaries(0, models=("new",)))
    verdict = decide_gate(now, run(GOOD, observed=seen("judge-1-2025-01-01")), default_policy())
    assert "replies as 'new', but this run was scored by 'judge-1-2025-01-01'" in verdict.warnings[0]
    assert verdict.comparability is not None
    assert "faithfulness" in verdict.comparability.metrics


def test_a_steady_judge_is_accused_in_fewer_runs_than_the_page_says_and_one_that_moved_is_seen_as_it_says() -> None:
    """docs/llm-judges.md: under 1 of 100 nights; a quarter of verdicts moved, in 9 of 10 nights; a tenth, in 1 of 3."""
    needed = next(k for k in range(CANARIES + 1) if moved(canaries(k)))
    assert needed == 3

    def published(share: float) -> float:
        return float(binom.sf(needed - 1, CANARIES, share))

    assert published(STEADY) < 0.01 < ALPHA
    assert 0.90 < published(0.25) < 0.92
    assert 0.30 < published(0.10) < 0.35


@pytest.mark.parametrize(
    ("asked", "replied", "provider", "news"),
    [
        ("gpt-5.4-mini", "gpt-3.5-turbo-0125", "openai", True),
        ("gpt-5.4-mini", "gpt-5.4-nano-2026-03-01", "openai", True),
        ("gpt-5.4", "gpt-5.4-mini", "openai", True),
        ("llama3:8b", "llama3:70b", "openai-compatible", True),
        ("gpt-5.4-mini", "gpt-5.4-mini-2026-03-01", "openai", False),
        ("gpt-3.5-turbo", "gpt-3.5-turbo-0125", "openai", False),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "anthropic", False),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001", "bedrock", False),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", "claude-haiku-4-5", "bedrock", False),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5-20251001", "vertex", False),
        ("openai/gpt-5.4-mini", "gpt-5.4-mini-2026-03-01", "openai-compatible", False),
        ("qwen3-8b", "/models/Qwen3-8B.gguf", "openai-compatible", False),
        ("llama3", "llama3:latest", "openai-compatible", False),
        ("judge", "gpt-5.4-mini-2026-03-01", "azure", False),  # a deployment is named by its owner
    ],
)
def test_a_model_that_was_not_asked_for_is_said_above_the_fold(
    asked: str, replied: str, provider: str, news: bool
) -> None:
    judge = replace(make_manifest().judge, provider=provider, model=asked)
    if provider == "azure":
        judge = replace(judge, provider="openai", endpoint=AZURE)
    verdict = decide_gate(run(GOOD, judge=judge, observed=seen(replied)), None, default_policy())
    found = [text for text in verdict.warnings if replied in text]
    assert bool(found) is news
    assert not news or (f"'{asked}'" in found[0] and found[0] not in verdict.texts(Level.ASIDE))


def test_an_alias_of_an_own_server_is_no_news_when_the_baseline_saw_it() -> None:
    judge = replace(make_manifest().judge, provider="openai-compatible", model="judge")
    then = run(GOOD, judge=judge, observed=seen("qwen3-8b"))
    same = decide_gate(run(GOOD, judge=judge, observed=seen("qwen3-8b")), then, default_policy())
    assert not any("is set to" in text for text in same.warnings)
    unknown = decide_gate(run(GOOD, judge=judge, observed=seen("qwen3-8b")), run(GOOD, judge=judge), default_policy())
    assert any("'qwen3-8b' replied" in text for text in unknown.warnings)
    other = decide_gate(run(GOOD, judge=judge, observed=seen("qwen3-0.6b")), then, default_policy())
    assert any("'qwen3-0.6b' replied" in text for text in other.warnings)
