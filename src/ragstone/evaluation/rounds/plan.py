"""What the rounds of one run have in common."""

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
    """A run: what its rounds have in common. `oracle`: a round with the reference
    contexts given follows.

    `time_limit_s` is for all rounds together. `workers` and `dask` say which processes
    judge. `invocation` says how the run was started.
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
    """Whether judgements are stored in the run directory, to be reused."""
    invocation: Invocation | None = None

    @property
    def system(self) -> SystemSource:
        """The system under test."""
        return self.metrics.system

    @property
    def keeps_contexts(self) -> bool:
        """Whether answers of a conversation are judged with the contexts of its earlier
        turns too."""
        return self.judge.settings.earlier_contexts

    def requiring(self, metrics: Sequence[str]) -> RunPlan:
        """This plan with `metrics` among those that are scored."""
        return replace(self, metrics=replace(self.metrics, required=tuple(metrics)))

    def selected_metrics(self) -> tuple[Metric, ...]:
        """The metrics to score. Raises ConfigError."""
        return self.metrics.select(self.golden)

    @property
    def recorded(self) -> str | None:
        """The entrypoint, if its answers were recorded, so that it can't be asked
        again."""
        entrypoint = entrypoint_or_none(self.system.settings.entrypoint)
        if entrypoint is None or entrypoint.kind.can_be_asked_again:
            return None
        return entrypoint.text

    def refuse_conflicts(self, *, compares_base: bool = False) -> None:
        """Raise ConfigError if parts of the run can't be combined. `compares_base`: the
        system of a base commit is asked too."""
        recorded = self.recorded
        asks_again = (
            (self.answers_per_sample > 1, "answers", "run.answers"),
            (compares_base, BASE_OPTION, "gate.baseline_commit"),
            (self.oracle, ORACLE_OPTION, "run.oracle"),
        )
        for is_chosen, option, where in asks_again:
            if recorded is not None and is_chosen:
                raise recorded_error(option, where, recorded)
        part = self.system.settings.part
        if self.oracle and part is not None:
            raise ConfigError(
                f'{ORACLE_OPTION} can\'t be combined with part = "{part}": it needs the whole system.',
                where="run.oracle",
                hint="Leave out one of the two.",
            )

    def check_started(self, system: System) -> None:
        """Raise SystemUnderTestError if the started `system` can't take the contexts
        that an oracle half gives it."""
        if self.oracle:
            refuse_without_contexts(system, ORACLE_OPTION)


def recorded_error(option: str, where: str, entrypoint: str) -> ConfigError:
    """The error of an `option` for which recorded answers would have to be asked for
    again."""
    return ConfigError(
        f"{option} can't be combined with recorded answers ({entrypoint}): it needs a system that can be asked again.",
        where=where,
        hint="Leave out one of the two.",
    )
