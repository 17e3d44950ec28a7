"""The container's part of a job: where the run is stored while user code runs, and how
its results are handed over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.evaluation.writer import refuse_foreign
from ragstone.github.api.commands import Write
from ragstone.github.container.confinement import (
    Confinement,
    end_strays,
    give_to,
    hand_over,
)
from ragstone.github.container.runner_folders import RunnerFolders
from ragstone.github.container.user_environment import (
    Installed,
    Steps,
    SystemSetup,
    base_python,
    container_environ,
    install_environ,
)
from ragstone.golden.sample import Texts
from ragstone.settings.settings import SystemSettings
from ragstone.settings.variables import Environ

SETUP_LIMIT_S = 1800.0
"""For each of the action's `setup` and `requirements`."""
SIDE = "RAGSTONE_SIDE"
"""Says which version it is, ``base`` or ``head``, where both run in one container: they
must not use the same port."""


class Container(Struct, frozen=True):
    """Ragstone in its container, with the user's code confined.

    `private` is a folder that the user's code can't enter; `directory` is the working
    directory of the workflow, in which `setup` runs and where `requirements` are looked
    for. `base` is another user, for the base commit's code.
    """

    confinement: Confinement
    private: Path
    workspace: Path
    directory: Path
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
        if self.workspace.resolve() not in place.parents:
            raise ConfigError(
                f"'{out}' is not a folder in the workspace, and nothing is written anywhere else.",
                where="run.out",
                hint="Name a folder of its own, such as ragstone-run.",
            )
        return place

    def install(
        self,
        system: SystemSettings,
        environ: Environ,
        deadline: float | None,
        write: Write,
        *,
        base_checkout: Path | None = None,
    ) -> Installed:
        """Set up the user's system by `deadline`, of the monotonic clock, to run as the
        workspace's owner; with a `base_checkout` that of the base commit, as a user of
        its own.

        That of the base goes first: then no code of the current system runs yet. Raises
        ConfigError, SystemUnderTestError, TimeLimitReached.
        """
        confinement, directory = self.confinement, self.directory
        extra_names: Texts = ()
        if self.base is not None:
            side = "head"
            if base_checkout is not None:
                side, confinement = "base", self.base
                give_to(confinement, base_checkout)
                workspace = self.workspace.resolve()
                directory = base_checkout / directory.resolve().relative_to(workspace)
            environ = {**environ, SIDE: side}
            extra_names = (SIDE,)
        environ = container_environ(environ, confinement)
        python = system.python or base_python()
        if self.setup.needs_environment:
            names = (*system.env, *extra_names)
            variables = install_environ(environ, confinement, names)
            own_variables = self.setup.run(
                Steps(confinement, variables, directory, write, SETUP_LIMIT_S, deadline)
            )
            # A requested environment overrides the interpreter in the config, which is
            # for other places.
            environ = {**environ, **own_variables}
            python = f"{own_variables['VIRTUAL_ENV']}/bin/python"
        settings = system.model_copy(update={"python": python})
        return Installed(settings, environ, confinement.run_as, extra_names)

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
            for confinement in self._users:
                shutil.rmtree(confinement.folder, ignore_errors=True)

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
        users = (self.confinement, self.base)
        return tuple(user for user in users if user is not None)

    def _end_strays(self) -> None:
        for confinement in self._users:
            end_strays(confinement.run_as.uid)

    def publish(self, run: Path, out: Path) -> None:
        """Copy the run directory to `out`, as the owner. Raises ConfigError if that
        fails."""
        hand_over(self.confinement, run, self._target(out))
