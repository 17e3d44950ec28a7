"""The plan of a run: what its rounds have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import Invocation
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.sources import JudgeSource, SystemSource
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.system.entrypoint import entrypoint_or_none
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import System

BASE_OPTION = "--baseline-commit"
ORACLE_OPTION = "--oracle"


class RunPlan(Struct, frozen=True):
    """What the rounds of a run have in common.

    - `out`: the run directory.
    - `repeats`: how often each answer is judged.
    - `answers_per_sample`: how often each question is asked.
    - `time_limit_s`: the limit for all rounds together.
    - `workers`, `dask`: the processes that judge; `dask` is the address of a scheduler.
    - `oracle`: whether a last round gives the reference contexts to the system.
    - `cached`: whether judgements are stored in the run directory, to be reused.
    - `invocation`: how the run was started.
    """

    golden: GoldenSet
    judge: JudgeSource
    metrics: ProjectMetrics
    out: Path
    repeats: int = 1
    answers_per_sample: int = 1
    resume: bool = False
    time_limit_s: float | None = None
    workers: int | Literal["auto"] = "auto"
    dask: str | None = None
    oracle: bool = False
    cached: bool = True
    invocation: Invocation | None = None

    @property
    def system(self) -> SystemSource:
        """The system under test."""
        return self.metrics.system

    @property
    def keeps_contexts(self) -> bool:
        """Whether an answer of a conversation is judged with the contexts of earlier
        turns too."""
        return self.judge.settings.earlier_contexts

    def requiring(self, metrics: Sequence[str]) -> RunPlan:
        """This plan with `metrics` scored too."""
        return replace(self, metrics=replace(self.metrics, required=tuple(metrics)))

    def selected_metrics(self) -> tuple[Metric, ...]:
        """The metrics to score. Raises ConfigError."""
        return self.metrics.select(self.golden)

    @property
    def recorded_entrypoint(self) -> str | None:
        """The entrypoint if it names recorded answers, which can't be asked for again;
        None for a system."""
        entrypoint = entrypoint_or_none(self.system.settings.entrypoint)
        if entrypoint is None or entrypoint.kind.can_be_asked_again:
            return None
        return entrypoint.text

    def refuse_conflicts(self, *, compares_base: bool = False) -> None:
        """Raise ConfigError if parts of the run can't be combined. With `compares_base`,
        the system of a base commit is asked too."""
        entrypoint = self.recorded_entrypoint
        options_that_ask_again = (
            (self.answers_per_sample > 1, "answers", "run.answers"),
            (compares_base, BASE_OPTION, "gate.baseline_commit"),
            (self.oracle, ORACLE_OPTION, "run.oracle"),
        )
        for is_chosen, option, where in options_that_ask_again:
            if entrypoint is not None and is_chosen:
                raise recorded_error(option, where, entrypoint)
        part = self.system.settings.part
        if self.oracle and part is not None:
            raise ConfigError(
                f'{ORACLE_OPTION} can\'t be combined with part = "{part}": it needs the whole system.',
                where="run.oracle",
                hint="Leave out one of the two.",
            )

    def check_started(self, system: System) -> None:
        """Raise SystemUnderTestError if an oracle round is planned and the started
        `system` does not take contexts."""
        if self.oracle:
            refuse_without_contexts(system, ORACLE_OPTION)


def recorded_error(option: str, where: str, entrypoint: str) -> ConfigError:
    """The error if `option` would have to ask again for recorded answers."""
    return ConfigError(
        f"{option} can't be combined with recorded answers ({entrypoint}): it needs a system that can be asked again.",
        where=where,
        hint="Leave out one of the two.",
    )
