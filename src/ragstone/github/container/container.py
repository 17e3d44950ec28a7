"""The container's part of a job: sets up the user's system, keeps the run out of its
reach, and copies it to the workspace in the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.rounds.rounds_plan import RunPlan
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
"""For each of the action's inputs `setup` and `requirements`."""
SIDE = "RAGSTONE_SIDE"
"""The variable that tells a system which version it is, ``base`` or ``head``, if both
run in one container, where they must not use the same port."""


class Container(Struct, frozen=True):
    """Ragstone in its container, with the user's code confined."""

    confinement: Confinement
    private: Path
    """A folder that the user's code can't enter."""
    workspace: Path
    directory: Path
    """The input `working-directory`, in which `setup` runs, and which `requirements`
    are relative to."""
    setup: SystemSetup
    folders: RunnerFolders
    base: Confinement | None = None
    """Another user, for the code of the base commit."""

    def staged(self, plan: RunPlan) -> RunPlan:
        """Move the run directory of `plan` out of the reach of the user's code, until
        the verdict is final. Raises ConfigError if a run can't be written to the
        configured one."""
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
            # The inputs' environment comes before the interpreter in the config, which
            # is for runs outside of the container.
            environ = {**environ, **own_variables}
            python = f"{own_variables['VIRTUAL_ENV']}/bin/python"
        settings = system.model_copy(update={"python": python})
        return Installed(settings, environ, confinement.run_as, extra_names)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Close the runner's own folders to the user's code within the block. Raises
        ConfigError. They stay closed if a process of that code can't be killed."""
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
        """Kill what still runs of the user's code, and create the files for GitHub
        afresh.

        Raises SystemUnderTestError if a process can't be killed; then nothing may be
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
        """Copy the run directory to `out` in the workspace, as its owner. Raises
        ConfigError if that fails."""
        hand_over(self.confinement, run, self._target(out))
