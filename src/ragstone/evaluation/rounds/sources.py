"""Builds the two sides of a round from their settings: the system that is asked, and the
judge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import SystemManifest
from ragstone.evaluation.rounds.context import RunContext
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge
from ragstone.settings.settings import JudgeSettings, SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.response import System, takes_extra

SystemPart = Literal["retrieval", "generation"]


class SystemSource(Struct, frozen=True):
    """The system under test as it is configured.

    - `root`: the folder that relative paths in `settings` start from.
    - `allowed_folder`: the folder that all files of the system must be in; None for any.
    - `commit`: the commit of the system, if it is known.
    """

    settings: SystemSettings
    root: Path = Path()
    allowed_folder: Path | None = None
    commit: str | None = None

    def build(self, context: RunContext) -> System:
        """The system, not yet started. Raises ConfigError."""
        settings = self.settings
        if context.system_factory is not None:
            return context.system_factory(settings)
        if not settings.entrypoint and not settings.functions:
            raise ConfigError(
                "no entrypoint.",
                hint="Use --entrypoint, for example python:my_package.rag:answer, or set it under [system].",
            )
        return build_system(
            settings,
            root=self.root,
            environ=context.environ,
            log=context.system_log,
            within=self.allowed_folder,
        )

    def of_part(self, part: SystemPart | None) -> SystemSource:
        """The source of this system with only `part` evaluated; None for all of it."""
        return replace(self, settings=self.settings.model_copy(update={"part": part}))

    def for_functions(
        self, functions: Mapping[str, str], *, timeout_s: float
    ) -> SystemSource:
        """The source of a worker in the system's interpreter and environment that calls
        the `functions` of custom metrics instead of the system."""
        return replace(
            self, settings=self.settings.for_functions(functions, timeout_s=timeout_s)
        )

    def describe(self, system: System, golden: GoldenSet) -> SystemManifest:
        """Describe the started `system`, built from this source, for a manifest."""
        samples_with_history = 0
        for sample in golden:
            # A system with sessions may remember the messages that it was asked itself.
            is_own = sample.turn is not None and sample.turn.own_history
            if sample.history and not (is_own and takes_extra(system, "session")):
                samples_with_history += 1
        return SystemManifest(
            entrypoint=system.entrypoint,
            commit=self.commit,
            version=self.settings.version,
            part=self.settings.part,
            conversations=samples_with_history,
            takes_history=takes_extra(system, "history"),
        )


class JudgeSource(Struct, frozen=True):
    """The judge as it is configured.

    - `allowed_folder`: the folder that the files of a scripted or fitted judge must be
      in; None for any.
    - `caller_judge`: a judge of the caller's, used instead of the one that `settings`
      name.
    """

    settings: JudgeSettings
    allowed_folder: Path | None = None
    caller_judge: Judge | None = None

    def build(
        self, golden: GoldenSet, cache: Path | None, context: RunContext
    ) -> Judge:
        """The judge for the texts of `golden`, which stores judgements in the file
        `cache`. Raises ConfigError."""
        if self.caller_judge is not None:
            return self.caller_judge
        return build_judge(
            self.settings,
            golden_set=golden,
            cache=cache,
            environ=context.environ,
            tell_secret=context.redact.add,
            within=self.allowed_folder,
        )
