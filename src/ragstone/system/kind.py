"""The interface of a kind of entrypoint: its schemes, what its systems can do, and how
a system is built."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.golden.sample import Texts
from ragstone.settings.settings import SystemSettings
from ragstone.settings.variables import Environ
from ragstone.system.child import ChildContext, SystemLog
from ragstone.system.environment import RunAs, missing_variable_hint
from ragstone.system.response import RETRIEVAL, System
from ragstone.system.worker.fields import Fields


class Surroundings(Struct, frozen=True):
    """What a system is built from besides its settings: see the parameters of
    `build_system`."""

    root: Path
    environ: Environ
    child_environ: Environ
    """The part of `environ` that the system's processes get."""
    log: Path | None
    run_as: RunAs | None
    within: Path | None
    forbidden_imports: Path | None

    def child_context(self, settings: SystemSettings) -> ChildContext:
        """What all child processes of a system share. Raises ConfigError."""
        directory = (self.root / (settings.working_directory or "")).resolve()
        if not directory.is_dir():
            raise ConfigError(
                f"the working directory {directory} does not exist.",
                where="system.working_directory",
            )
        return ChildContext(
            directory=directory,
            environ=self.child_environ,
            log=SystemLog(self.log),
            run_as=self.run_as,
            missing_variable_hint=lambda text: missing_variable_hint(
                text, self.environ, self.child_environ
            ),
        )


class EntrypointKind(ABC):
    """One kind of entrypoint. Register it in `entrypoint.KINDS`.

    The `target` of an entrypoint is what follows its scheme.
    """

    schemes: ClassVar[Texts]
    example: ClassVar[str]
    """An entrypoint of this kind, for messages."""
    description = "an entrypoint"
    """What messages say that an invalid entrypoint is not."""

    can_be_asked_again = True
    """Whether a question can be asked twice, or in other words; recorded answers
    can't."""

    runs_users_code = True
    """Whether asking runs code of the checkout in a process of this job."""

    is_address = False
    """Whether the entrypoint is a URL. Its `target` is then the whole URL, and only one
    version of the system can be there at a time."""

    uses_interpreter = False
    """Whether the setting `python` applies."""

    def is_valid(self, target: str) -> bool:
        """Whether `target` can name a system."""
        return target != ""

    def paths(self, target: str) -> tuple[Path, ...]:  # noqa: ARG002 - for subclasses
        """The parts of `target` that may be paths of files, without the program to
        run."""
        return ()

    @abstractmethod
    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        """Build the system without starting it. Raises ConfigError."""


def has_folder(program: str) -> bool:
    """Whether `program` is a path rather than a name on PATH."""
    return os.path.dirname(program) != ""  # noqa: PTH120


def answer_fields(settings: SystemSettings) -> Fields:
    """The paths in `settings` to the answer, its contexts and its steps."""
    return Fields(
        answer=settings.answer_field,
        contexts=settings.contexts_field,
        context_text=settings.context_text_field,
        context_id=settings.context_id_field,
        steps=settings.steps_field,
        contexts_only=settings.part == RETRIEVAL,
    )
