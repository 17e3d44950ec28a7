"""The container's part of a job: where the run is stored while user code runs, and how
its results are handed over."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.session import RunPlan
from ragstone.evaluation.writer import refuse_foreign
from ragstone.github.container.confinement import (
    Confinement,
    end_strays,
    give_to,
    hand_over,
)
from ragstone.github.container.runner_folders import RunnerFolders
from ragstone.github.container.user_environment import Limits, SystemSetup, prepare
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.response import System

_MOMENT_S = 0.001
SETUP_LIMIT_S = 1800.0
"""For each of the action's `setup` and `requirements`."""
SIDE = "RAGSTONE_SIDE"
"""Says which version it is, ``base`` or ``head``, where both run in one container: they
must not use the same port."""


def with_side(system: SystemSettings) -> SystemSettings:
    """`system`, told which version it is."""
    return system.model_copy(update={"env": (*system.env, SIDE)})


@dataclass(frozen=True, slots=True)
class Container:
    """Ragstone in its container, with the user's code confined.

    `private` is a folder that the user's code can't enter; `directory` is the working
    directory of the workflow, in which `setup` runs and where `requirements` are looked
    for. `base` is another user, for the base commit's code.
    """

    confinement: Confinement
    private: Path
    workspace: Path
    directory: Path
    environ: Mapping[str, str]
    setup: SystemSetup
    folders: RunnerFolders
    base: Confinement | None = None

    def staged(self, plan: RunPlan) -> RunPlan:
        """`plan` with the run directory out of the user's reach until the verdict is
        final.

        Raises ConfigError if the configured one is not suitable for a run.
        """
        refuse_foreign(plan.out)
        self._target(plan.out)
        return replace(plan, out=self.staging)

    @property
    def staging(self) -> Path:
        """The location of the run directory until the verdict is final."""
        return (self.private / "run").resolve()

    def _target(self, out: Path) -> Path:
        """The location of the run directory with links resolved. Raises ConfigError if
        it is outside the workspace."""
        place = out.resolve()
        if place == self.workspace.resolve() or not place.is_relative_to(
            self.workspace.resolve()
        ):
            raise ConfigError(
                f"'{out}' is not a folder in the workspace, and nothing is written anywhere else.",
                where="run.out",
                hint="Name a folder of its own, such as ragstone-run.",
            )
        return place

    def prepare(
        self,
        plan: RunPlan,
        context: RunContext,
        log: Path,
        write: Callable[[str], None],
    ) -> tuple[RunPlan, RunContext]:
        """Set up the user's system to run as the workspace's owner. This counts towards
        the total time limit."""
        side, source = None if self.base is None else "head", plan.system
        plan, settings, environ = self._prepared(
            plan, source.settings, self.confinement, self.directory, side, write
        )

        def factory(settings_asked: SystemSettings) -> System:
            return build_system(
                settings_asked if side is None else with_side(settings_asked),
                root=source.root,
                environ=environ,
                log=log,
                run_as=self.confinement.run_as,
                within=source.within,
            )

        plan = replace(
            plan,
            metrics=replace(plan.metrics, system=replace(source, settings=settings)),
        )
        return plan, replace(context, system_factory=factory)

    def prepare_base(
        self,
        plan: RunPlan,
        system: SystemSettings,
        checkout: Path,
        *,
        root: Path,
        log: Path,
        write: Callable[[str], None],
    ) -> tuple[RunPlan, SystemSettings, Callable[[], System]]:
        """Set up the base commit's system, whose config is in `root` below `checkout`,
        as a user of its own.

        Call before `prepare`: then no code of the current system runs yet. Returns
        `plan` with the time that is left, the base's settings, and what builds its
        system.
        """
        base = self.base
        assert base is not None  # noqa: S101 - for the type checker
        give_to(base, checkout)
        directory = checkout / self.directory.resolve().relative_to(
            self.workspace.resolve()
        )
        plan, system, environ = self._prepared(
            plan, system, base, directory, "base", write
        )
        system = with_side(system)
        make = partial(
            build_system,
            system,
            root=root,
            environ=environ,
            log=log,
            run_as=base.run_as,
            within=checkout,
            not_from=self.workspace,
        )
        return plan, system, make

    def _prepared(
        self,
        plan: RunPlan,
        system: SystemSettings,
        confinement: Confinement,
        directory: Path,
        side: str | None,
        write: Callable[[str], None],
    ) -> tuple[RunPlan, SystemSettings, Mapping[str, str]]:
        """`plan` with the time that is left, `system` with its interpreter, and the
        variables of its children."""
        limit = plan.time_limit_s
        deadline = monotonic() + limit if limit is not None else None
        environment = prepare(
            self.setup,
            confinement=confinement,
            environ={**self.environ, **({} if side is None else {SIDE: side})},
            system_env=system.env if side is None else (*system.env, SIDE),
            directory=directory,
            limits=Limits(SETUP_LIMIT_S, deadline),
            write=write,
        )
        # A requested environment overrides the interpreter in the config, which is for
        # other places.
        python = (
            environment.python
            if environment.made
            else system.python or environment.python
        )
        if deadline is not None:
            # Leave at least a moment for the run to start and to report that it was
            # stopped.
            plan = replace(plan, time_limit_s=max(_MOMENT_S, deadline - monotonic()))
        return plan, system.model_copy(update={"python": python}), environment.environ

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Within the block, the runner's own folders are closed to the user's code.
        Raises ConfigError.

        They stay closed if any of that code can't be killed.
        """
        try:
            for confinement in self._users:
                self.folders.close(confinement)
            yield
        finally:
            with suppress(SystemUnderTestError):
                self._end_strays()
                self.folders.give_back()
            if self.base is not None:
                shutil.rmtree(self.base.folder, ignore_errors=True)

    def seal(self) -> None:
        """The user's code is done: kill what is left of it, and create the files for
        GitHub afresh.

        Raises SystemUnderTestError if some of it can't be killed; then nothing may be
        published.
        """
        self._end_strays()
        self.folders.renew()

    @property
    def _users(self) -> tuple[Confinement, ...]:
        # In this order: the runner's folders stay open as far as the workspace's owner
        # needs them.
        return (
            (self.confinement,) if self.base is None else (self.confinement, self.base)
        )

    def _end_strays(self) -> None:
        for confinement in self._users:
            end_strays(confinement.run_as.uid)

    def publish(self, run: Path, out: Path) -> None:
        """Copy the run directory to `out`, as the owner. Raises ConfigError if that
        fails."""
        hand_over(self.confinement, run, self._target(out))
