"""What builds the parties of a round: the system that is asked, and the judge."""

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
    """The system under test as it is configured. Relative paths in `settings` start
    from `root`.

    `within` is the folder that every named file must be in. `commit` is the version
    that is asked, if it is known.
    """

    settings: SystemSettings
    root: Path = Path()
    within: Path | None = None
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
            within=self.within,
        )

    def of_part(self, part: SystemPart | None) -> SystemSource:
        """This system, of which only `part` is evaluated."""
        return replace(self, settings=self.settings.model_copy(update={"part": part}))

    def calling(
        self, functions: Mapping[str, str], *, timeout_s: float
    ) -> SystemSource:
        """A worker in the system's interpreter and environment that calls `functions`
        of custom metrics."""
        return replace(
            self, settings=self.settings.calling(functions, timeout_s=timeout_s)
        )

    def describe(self, system: System, golden: GoldenSet) -> SystemManifest:
        """`system`, built from this and started, in a manifest."""
        conversations = 0
        for sample in golden:
            # A system that keeps sessions apart may remember what was said before.
            is_own = sample.turn is not None and sample.turn.own_history
            if sample.history and not (is_own and takes_extra(system, "session")):
                conversations += 1
        return SystemManifest(
            entrypoint=system.entrypoint,
            commit=self.commit,
            version=self.settings.version,
            part=self.settings.part,
            conversations=conversations,
            takes_history=takes_extra(system, "history"),
        )


class JudgeSource(Struct, frozen=True):
    """The judge as it is configured. A script and a fitted judge must lie below
    `within`.

    `ready` is a judge of the caller's, used in place of what `settings` name.
    """

    settings: JudgeSettings
    within: Path | None = None
    ready: Judge | None = None

    def build(
        self, golden: GoldenSet, cache: Path | None, context: RunContext
    ) -> Judge:
        """The judge for the texts of `golden`, with its cache. Raises ConfigError."""
        if self.ready is not None:
            return self.ready
        return build_judge(
            self.settings,
            golden_set=golden,
            cache=cache,
            environ=context.environ,
            tell_secret=context.redact.add,
            within=self.within,
        )
