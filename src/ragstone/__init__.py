"""Ragstone: a CI/CD quality gate for RAG systems."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ragstone._version import __version__

if TYPE_CHECKING:
    from ragstone.api import (
        GoldenSet,
        Report,
        Run,
        Verdict,
        compare,
        evaluate,
        load_golden_set,
    )
    from ragstone.errors import RagstoneError
    from ragstone.evaluation.scores import MetricScores, RunScores
    from ragstone.gate.policy import Policy
    from ragstone.gate.verdict import Check, GateVerdict
    from ragstone.golden.sample import Sample
    from ragstone.interaction_log import log_interaction
    from ragstone.judge.protocol import Judge
    from ragstone.judge.rubric import Rubric
    from ragstone.system.response import Context, Response, System

__all__ = [
    "Check",
    "Context",
    "GateVerdict",
    "GoldenSet",
    "Judge",
    "MetricScores",
    "Policy",
    "RagstoneError",
    "Report",
    "Response",
    "Rubric",
    "Run",
    "RunScores",
    "Sample",
    "System",
    "Verdict",
    "__version__",
    "compare",
    "evaluate",
    "load_golden_set",
    "log_interaction",
]

_NAMES_BY_MODULE = {
    "api": (
        "GoldenSet",
        "Report",
        "Run",
        "Verdict",
        "compare",
        "evaluate",
        "load_golden_set",
    ),
    "errors": ("RagstoneError",),
    "gate.policy": ("Policy",),
    "gate.verdict": ("Check", "GateVerdict"),
    "golden.sample": ("Sample",),
    "interaction_log": ("log_interaction",),
    "judge.protocol": ("Judge",),
    "judge.rubric": ("Rubric",),
    "evaluation.scores": ("MetricScores", "RunScores"),
    "system.response": ("Context", "Response", "System"),
}


def __getattr__(name: str) -> object:
    # Modules are imported when a name is first used, so that `import ragstone` and
    # `ragstone --help` stay fast.
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'ragstone' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
