"""What a kind of entrypoint is: its schemes, what its systems can do, and how one is
built."""

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
from ragstone.system.environment import RunAs, lacking
from ragstone.system.response import RETRIEVAL, System
from ragstone.system.worker.fields import Fields


class Surroundings(Struct, frozen=True):
    """Where a system is built: see `build_system`. `child_environ` is what its
    processes see of `environ`."""

    root: Path
    environ: Environ
    child_environ: Environ
    log: Path | None
    run_as: RunAs | None
    within: Path | None
    not_from: Path | None

    def child_context(self, settings: SystemSettings) -> ChildContext:
        """What the child processes of a system are started with. Raises ConfigError."""
        directory = (self.root / (settings.working_directory or "")).resolve()
        if not directory.is_dir():
            raise ConfigError(
                f"the working directory {directory} does not exist.",
                where="system.working_directory",
            )
        return ChildContext(
            directory,
            self.child_environ,
            SystemLog(self.log),
            self.run_as,
            lambda text: lacking(text, self.environ, self.child_environ),
        )


class EntrypointKind(ABC):
    """One kind of entrypoint. Register it in `entrypoint.KINDS`."""

    schemes: ClassVar[Texts]
    form: ClassVar[str]
    """An example, for messages."""
    noun = "an entrypoint"
    """What an invalid one is not."""

    can_be_asked_again = True
    """Whether a question can be asked twice, or in other words; recorded answers
    can't."""

    runs_users_code = True
    """Whether asking runs code of the checkout in a process of this job."""

    is_address = False
    """Whether it is a URL, at which there can be only one version of the system at a
    time: `target` is all of it."""

    uses_interpreter = False
    """Whether the setting `python` applies."""

    def is_valid(self, target: str) -> bool:
        """Whether `target` can name a system."""
        return target != ""

    def paths(self, target: str) -> tuple[Path, ...]:  # noqa: ARG002 - for subclasses
        """What may be paths in `target`, besides the system itself."""
        return ()

    @abstractmethod
    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        """The system, not yet started. Raises ConfigError."""


def has_folder(program: str) -> bool:
    """Whether `program` is a path rather than a name on PATH."""
    return os.path.dirname(program) != ""  # noqa: PTH120


def answer_fields(settings: SystemSettings) -> Fields:
    """Where the answer, its contexts and its steps are, as `settings` say."""
    return Fields(
        answer=settings.answer_field,
        contexts=settings.contexts_field,
        context_text=settings.context_text_field,
        context_id=settings.context_id_field,
        steps=settings.steps_field,
        contexts_only=settings.part == RETRIEVAL,
    )
