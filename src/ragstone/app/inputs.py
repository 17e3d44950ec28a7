"""What a run is made from: the golden set, the system under test, and the part of both to evaluate."""

from __future__ import annotations

from ragstone.app.context import RunContext
from ragstone.config import Settings
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.formatting import counted, some
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.run.shards import Shard
from ragstone.system.build import build_system
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.response import GENERATION, System


def read_golden_set(settings: Settings) -> GoldenSet:
    """The golden set in `settings`. Raises ConfigError if there is none."""
    if not settings.golden.paths:
        raise ConfigError(
            "no golden set.",
            hint="Use --golden FILE, or set paths under [golden] in ragstone.toml (`ragstone init` writes one).",
        )
    return load_golden_set(
        settings.golden.paths,
        root=settings.root,
        columns=settings.golden.columns or None,
        limit=settings.golden.limit,
        within=settings.within,
    )


def make_system(settings: Settings, context: RunContext) -> System:
    """The system under test in `settings`, not yet started."""
    if context.system_factory is not None:
        return context.system_factory(settings, context.environ)
    if not settings.system.entrypoint:
        raise ConfigError(
            "no entrypoint.",
            hint="Use --entrypoint, for example python:my_package.rag:answer, or set it under [system].",
        )
    if settings.run.answers > 1 and not parse_entrypoint(settings.system.entrypoint).can_be_asked_again:
        raise ConfigError(
            f"answers = {settings.run.answers}, but a file has one recorded answer to each question.",
            where=settings.system.entrypoint,
            hint="Use answers = 1, or an entrypoint that can be asked again.",
        )
    return build_system(
        settings.system,
        root=settings.root,
        environ=context.environ,
        log=context.system_log,
        within=settings.within,
    )


def shard_of(settings: Settings) -> Shard | None:
    """The shard to evaluate; None: the whole golden set. Raises ConfigError for settings that need the whole."""
    if settings.run.shard is None:
        return None
    refuse_parts(settings)
    return Shard.parse(settings.run.shard)


def refuse_without_given(golden: GoldenSet, settings: Settings) -> None:
    """Raise GoldenSetError if only generation is evaluated, and an answerable sample has no contexts to give."""
    if settings.system.part != GENERATION:
        return
    bare = [sample for sample in golden if sample.answerable and not sample.reference_contexts]
    if bare:
        have = "has" if len(bare) == 1 else "have"
        raise GoldenSetError(
            f"{counted(len(bare), 'sample')} {have} no reference_contexts to give to the system: "
            f"{some([sample.id for sample in bare])}.",
            where=str(bare[0].origin) if bare[0].origin is not None else None,
            hint='With part = "generation", each answerable sample needs the contexts that its answer is made from.',
        )


def refuse_parts(settings: Settings) -> None:
    """Raise ConfigError for settings with which a run can't be evaluated in shards."""
    if settings.run.stop_early:
        raise ConfigError(
            "stopping early needs the scores of all samples so far, and a shard has only its own.",
            where="run.stop_early",
            hint="Use --stop-early, or shards.",
        )
    if settings.run.oracle:
        raise ConfigError(
            "an oracle half is of a whole run, not of shards of it.",
            where="run.oracle",
            hint="Use --oracle, or shards.",
        )
    if settings.gate.baseline_commit is not None:
        raise ConfigError(
            "a base commit is asked beside the whole golden set, not beside shards of it.",
            where="gate.baseline_commit",
            hint="Compare with an earlier run instead, or evaluate everything in one job.",
        )
    if settings.run.perturb:
        raise ConfigError(
            "perturbed questions are drawn from the whole golden set, not from shards of it.",
            where="run.perturb",
            hint="Ask them in a run without --shard.",
        )
