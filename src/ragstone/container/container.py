"""The container's part of a job: where the run is stored while user code runs, and how its results are handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Protocol

from ragstone.config import Settings
from ragstone.container.confinement import Confinement, hand_over
from ragstone.container.strays import end_strays
from ragstone.container.user_environment import Limits, SystemSetup, prepare
from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.run.writer import refuse_foreign
from ragstone.system.build import build_system
from ragstone.system.response import System
from ragstone.usecases.run import RunContext

_MOMENT_S = 0.001


class ProtectedFolders(Protocol):
    """Folders of the host that the user's code must not access while it runs."""

    def close(self, confinement: Confinement) -> None:
        """Take over the folders before any user code runs. Raises ConfigError if that is not possible."""

    def renew(self) -> None:
        """Replace the files in them that the host will read. Raises ConfigError."""

    def give_back(self) -> None:
        """Return folders and files to their owners."""


@dataclass(frozen=True, slots=True)
class Container:
    """Ragstone in its container, with the user's code confined.

    `private` is a folder that the user's code can't enter; `directory` is the working directory of the workflow, in
    which `setup` runs and where `requirements` are looked for.
    """

    confinement: Confinement
    private: Path
    workspace: Path
    directory: Path
    environ: Mapping[str, str]
    setup: SystemSetup
    folders: ProtectedFolders

    @property
    def notices(self) -> tuple[str, ...]:
        return self.confinement.notices

    def staged(self, settings: Settings) -> Settings:
        """`settings` with the run directory out of the user's reach until the verdict is final.

        Raises ConfigError if the configured one is not suitable for a run.
        """
        refuse_foreign(settings.path(settings.run.out))
        self._target(settings)
        return settings.model_copy(update={"run": settings.run.model_copy(update={"out": str(self.staging)})})

    @property
    def staging(self) -> Path:
        """The location of the run directory until the verdict is final."""
        return (self.private / "run").resolve()

    def _target(self, settings: Settings) -> Path:
        """The location of the run directory with links resolved. Raises ConfigError if it is outside the workspace."""
        named = settings.run.out
        place = settings.path(named).resolve()
        if place == self.workspace.resolve() or not place.is_relative_to(self.workspace.resolve()):
            raise ConfigError(
                f"'{named}' is not a folder in the workspace, and nothing is written anywhere else.",
                where="run.out",
                hint="Name a folder of its own, such as ragstone-run.",
            )
        return place

    def prepare(
        self, settings: Settings, context: RunContext, log: Path, write: Callable[[str], None]
    ) -> tuple[Settings, RunContext]:
        """Set up the user's system to run as the workspace's owner. This counts towards the total time limit."""
        limit = settings.run.time_limit_s
        deadline = monotonic() + limit if limit is not None else None
        found = prepare(
            self.setup,
            confinement=self.confinement,
            environ=self.environ,
            system_env=settings.system.env,
            directory=self.directory,
            limits=Limits(settings.system.setup_timeout_s, deadline),
            write=write,
        )
        if deadline is not None:
            # Leave at least a moment for the run to start and to report that it was stopped.
            left = max(_MOMENT_S, deadline - monotonic())
            settings = settings.model_copy(update={"run": settings.run.model_copy(update={"time_limit_s": left})})
        # A requested environment overrides the interpreter in the config, which is for other places.
        python = found.python if found.made else settings.system.python or found.python
        settings = settings.model_copy(update={"system": settings.system.model_copy(update={"python": python})})

        def factory(asked: Settings, _: Mapping[str, str]) -> System:
            return build_system(
                asked.system,
                root=asked.root,
                environ=found.environ,
                log=log,
                run_as=self.confinement.run_as,
                within=asked.within,
            )

        return settings, replace(context, system_factory=factory)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Within the block, the runner's own folders are closed to the user's code. Raises ConfigError.

        They stay closed if any of that code can't be killed.
        """
        try:
            self.folders.close(self.confinement)
            yield
        finally:
            with suppress(SystemUnderTestError):
                end_strays(self.confinement.run_as.uid)
                self.folders.give_back()

    def seal(self) -> None:
        """The user's code is done: kill what is left of it, and create the files for GitHub afresh.

        Raises SystemUnderTestError if some of it can't be killed; then nothing may be published.
        """
        end_strays(self.confinement.run_as.uid)
        self.folders.renew()

    def publish(self, run: Path, settings: Settings) -> None:
        """Copy the run directory to its place in `settings`, as the owner. Raises ConfigError if that fails."""
        hand_over(self.confinement, run, self._target(settings))
