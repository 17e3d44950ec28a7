"""Runs made of numbers, and what the gate decides on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Failed, FailedBy
from ragstone.system.response import TokenUsage

ONLY_NAMED = {"only_named": True}


def decide(now: RunScores, then: RunScores | None = None, **tables: Any) -> GateVerdict:
    """The verdict under the policy with these tables."""
    return decide_gate(now, then, policy_from_mapping(tables))


def evidence_of(now: RunScores, then: RunScores | None = None, **tables: Any) -> Evidence:
    return Evidence.of(now, then, policy_from_mapping(tables))


def checks_of(verdict: GateVerdict, kind: CheckKind) -> list[Check]:
    return [check for check in verdict.checks if check.kind is kind]


def check_of(verdict: GateVerdict, kind: CheckKind) -> Check:
    """The only check of its kind."""
    (check,) = checks_of(verdict, kind)
    return check


def named(count: int, start: int = 0) -> list[str]:
    """The ids of the samples that `build_run` makes."""
    return [f"s{number}" for number in range(start, start + count)]


def failed(samples: Iterable[str], by: FailedBy = "judge", why: str = "no reply") -> dict[str, Failed]:
    return dict.fromkeys(samples, Failed(by, why))


def make_manifest(
    *,
    provider: str = "openai",
    model: str = "judge-1",
    version: str = "prompts-1",
    repeats: int = 1,
    answers: int = 1,
    state: str = "finished",
    embeddings: str | None = None,
) -> Manifest:
    return Manifest.model_validate(
        {
            "ragstone_version": "1",
            "state": state,
            "created_at": "2026-11-21T00:00:00Z",
            "golden": GoldenManifest(files=("golden.jsonl",), content_hash="0", samples=10),
            "judge": JudgeIdentity(provider=provider, model=model, version=version, embeddings=embeddings),
            "system": SystemManifest(entrypoint="app:answer"),
            "metrics": {"faithfulness": "1"},
            "repeats": repeats,
            "answers": answers,
        }
    )


def build_run(
    metrics: Mapping[str, Sequence[float | Sequence[float | None]]],
    *,
    label: str = "run",
    manifest: Manifest | None = None,
    tags: Mapping[str, tuple[str, ...]] | None = None,
    groups: Mapping[str, str] | None = None,
    hashes: Mapping[str, str] | None = None,
    failed: Mapping[str, Mapping[str, Failed]] | None = None,
    not_applicable: Mapping[str, Mapping[str, str]] | None = None,
    latencies: Sequence[float] = (),
    usage: Sequence[tuple[int, int]] = (),
    system_failures: Mapping[str, str] | None = None,
    failed_answers: Mapping[str, int] | None = None,
    versions: Mapping[str, str] | None = None,
    offset: int = 0,
) -> RunScores:
    """A run whose samples are s0, s1 … (from `offset`); a metric's values are given in that order.

    A value that is a sequence is that of a sample that was asked several times: the score of each answer.
    """
    by_metric = {
        name: MetricScores(
            values={
                f"s{offset + index}": _mean(value)
                for index, value in enumerate(values)
                if f"s{offset + index}" not in (failed or {}).get(name, {})
            },
            answers={
                f"s{offset + index}": tuple(value)
                for index, value in enumerate(values)
                if not isinstance(value, (int, float)) and f"s{offset + index}" not in (failed or {}).get(name, {})
            },
            not_applicable=dict((not_applicable or {}).get(name, {})),
            failed=dict((failed or {}).get(name, {})),
            version=(versions or {}).get(name),
        )
        for name, values in metrics.items()
    }
    ids = dict.fromkeys(
        sample_id
        for scores in by_metric.values()
        for part in (scores.values, scores.not_applicable, scores.failed)
        for sample_id in part
    )
    ids.update(dict.fromkeys(system_failures or {}))
    return RunScores(
        label=label,
        metrics=by_metric,
        samples={
            sample_id: SampleFacts(
                tags=(tags or {}).get(sample_id, ()),
                group=(groups or {}).get(sample_id),
                content_hash=(hashes or {}).get(sample_id),
            )
            for sample_id in ids
        },
        system=SystemFacts(
            latencies_s={f"s{offset + index}": value for index, value in enumerate(latencies)},
            usage={f"s{offset + index}": TokenUsage(*value) for index, value in enumerate(usage)},
            failures=dict(system_failures or {}),
            failed_answers=dict(failed_answers or dict.fromkeys(system_failures or {}, 1)),
        ),
        manifest=manifest,
    )


def _mean(value: float | Sequence[float | None]) -> float:
    if isinstance(value, (int, float)):
        return value
    scored = [each for each in value if each is not None]
    return sum(scored) / len(scored)
