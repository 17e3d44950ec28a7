"""When the judge moves: seen, told first, and not blamed on the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom

from ragstone.evaluation.manifest import Canaries, Manifest, Observed
from ragstone.evaluation.rounds.judge_watch import CANARIES
from ragstone.gate.decide import decide_gate
from ragstone.gate.judge_drift import ALPHA, STEADY, moved
from ragstone.gate.policy import Policy, default_policy
from ragstone.gate.verdict import Side, Status
from tests.gate.conftest import build_run, make_manifest


def manifest(**more: Any) -> Manifest:
    return make_manifest().model_copy(update=more)


def seen(*models: str, fingerprints: tuple[str, ...] = (), ways: tuple[str, ...] = ("json_schema",)) -> Observed:
    return Observed(models=models, fingerprints=fingerprints, ways=ways)


def run(values: list[float], **more: Any) -> Any:
    return build_run({"faithfulness": values}, manifest=manifest(**more))


GOOD, BAD = [0.9] * 40, [0.3] * 40


@pytest.fixture
def policy() -> Policy:
    return default_policy()


def test_a_judge_that_answers_under_another_name_is_another_judge(policy: Policy) -> None:
    now, then = run(GOOD, observed=seen("judge-1-2026-09-01")), run(GOOD, observed=seen("judge-1-2026-03-01"))
    verdict = decide_gate(now, then, policy)
    assert verdict.comparability is not None
    assert "faithfulness" not in verdict.comparability.metrics
    [warning] = [text for text in verdict.warnings if "judge-1-2026-09-01" in text]
    assert "judge-1-2026-03-01" in warning


def test_another_way_of_asking_is_another_judge(policy: Policy) -> None:
    now, then = run(GOOD, observed=seen("x", ways=("prompt",))), run(GOOD, observed=seen("x"))
    verdict = decide_gate(now, then, policy)
    assert any("request mode is 'prompt' now and was 'json_schema' before" in text for text in verdict.warnings)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (seen("a"), seen("a")),
        (seen("a"), seen("a", "b")),  # the baseline was judged by both
        (None, seen("a")),
        (seen("a"), None),
        (Observed(), seen("a")),
        (seen("a"), Observed()),
    ],
)
def test_the_same_judge_or_an_unknown_one_is_compared(policy: Policy, mine: Any, theirs: Any) -> None:
    verdict = decide_gate(run(GOOD, observed=mine), run(GOOD, observed=theirs), policy)
    assert verdict.comparability is not None
    assert "faithfulness" in verdict.comparability.metrics


def test_another_backend_is_a_note_and_compared(policy: Policy) -> None:
    now, then = (run(GOOD, observed=seen("a", fingerprints=(name,))) for name in ("fp_2", "fp_1"))
    verdict = decide_gate(now, then, policy)
    assert verdict.comparability is not None
    assert "faithfulness" in verdict.comparability.metrics
    assert any("fp_2" in note for note in verdict.notes)
    assert not any("fp_2" in warning for warning in verdict.warnings)


def canaries(differing: int, asked: int = CANARIES, **more: Any) -> Canaries:
    return Canaries(asked=asked, differing=differing, supported_then=18, supported_now=18 - differing, **more)


def test_a_judge_that_moved_is_the_first_warning_with_an_interval(policy: Policy) -> None:
    verdict = decide_gate(run(BAD, canaries=canaries(3)), run(GOOD), policy)
    assert verdict.status is Status.FAIL
    assert verdict.warnings[0] == (
        "The judge's behaviour changed: 3 of 20 verdicts differ from the baseline's on the same text (95 % interval "
        "3.2 % to 37.9 %; supported: 18 then, 15 now). A rise or drop in this run may come from the judge, not the "
        "code."
    )
    assert verdict.attribution is not None
    assert verdict.attribution.side is Side.UNCLEAR
    assert "the judge's behaviour changed" in verdict.attribution.reason


def test_a_verdict_or_two_that_differ_are_a_note(policy: Policy) -> None:
    verdict = decide_gate(run(BAD, canaries=canaries(1, unanswered=2)), run(GOOD), policy)
    assert not any("judge" in warning for warning in verdict.warnings)
    assert any("1 of 20 verdicts differs" in note for note in verdict.notes)
    assert any("2 of the repeated judgements failed" in note for note in verdict.notes)
    assert verdict.attribution is not None
    assert "judge itself" not in verdict.attribution.reason


def test_a_name_that_means_another_model_now_is_told_although_all_scores_were_kept(policy: Policy) -> None:
    now = run(GOOD, observed=seen("judge-1-2025-01-01"), canaries=canaries(0, models=("new",)))
    verdict = decide_gate(now, run(GOOD, observed=seen("judge-1-2025-01-01")), policy)
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
    ],
)
def test_a_model_that_was_not_asked_for_is_said_above_the_fold(
    policy: Policy, asked: str, replied: str, provider: str, news: bool
) -> None:
    judge = replace(make_manifest().judge, provider=provider, model=asked)
    verdict = decide_gate(run(GOOD, judge=judge, observed=seen(replied)), None, policy)
    found = [text for text in verdict.warnings if replied in text]
    assert bool(found) is news
    assert not news or (f"set to '{asked}'" in found[0] and found[0] not in verdict.asides)


def test_an_alias_of_an_own_server_is_no_news_when_the_baseline_saw_it(policy: Policy) -> None:
    judge = replace(make_manifest().judge, provider="openai-compatible", model="judge")
    then = run(GOOD, judge=judge, observed=seen("qwen3-8b"))
    same = decide_gate(run(GOOD, judge=judge, observed=seen("qwen3-8b")), then, policy)
    assert not any("is set to" in text for text in same.warnings)
    other = decide_gate(run(GOOD, judge=judge, observed=seen("qwen3-0.6b")), then, policy)
    assert any("'qwen3-0.6b' replied" in text for text in other.warnings)


def test_a_deployment_is_named_by_its_owner(policy: Policy) -> None:
    address = "https://x.openai.azure.com/openai/deployments/judge?api-version=2026-01-01"
    judge = replace(make_manifest().judge, provider="openai", model="judge", endpoint=address)
    verdict = decide_gate(run(GOOD, judge=judge, observed=seen("gpt-5.4-mini-2026-03-01")), None, policy)
    assert not any("is set to" in text for text in verdict.warnings)
