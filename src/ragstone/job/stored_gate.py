"""The gate with a baseline from a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ragstone.app.context import RunContext
from ragstone.app.gate import GateOutcome, Role, evaluate_shard, gate, read_inputs
from ragstone.app.history import Book
from ragstone.app.merge import Shards
from ragstone.ci.store import BaselineStore, StoreFailed
from ragstone.config import Settings
from ragstone.errors import BaselineError, ConfigError, RagstoneError
from ragstone.history.file import History, parse_history
from ragstone.job.stored_baseline import StoredBaseline, find_baseline, refusal_of
from ragstone.job.stores.git import Git
from ragstone.job.stores.names import open_store
from ragstone.report.parts import Links
from ragstone.run.directory import HISTORY, RunDirectory


def store_of(settings: Settings, context: RunContext, git: Git) -> BaselineStore:
    """The store in `settings`. Raises ConfigError, also if another baseline is named beside it."""
    others = [
        f"--{name.replace('_', '-')}"
        for name in ("baseline", "baseline_commit")
        if getattr(settings.gate, name) is not None
    ]
    if others:
        raise ConfigError(
            f"there are two baselines, a store and {others[0]}.", where="gate.baseline_store", hint="Use one of them."
        )
    return open_store(
        settings.gate.baseline_store or "",
        root=settings.root,
        out=settings.path(settings.run.out),
        git=git,
        environ=context.environ,
    )


def look_up(settings: Settings, context: RunContext) -> str:
    """What the gate would find in the store, in a sentence. Raises ConfigError."""
    git = Git(settings.root.absolute(), context.environ)
    git.head()
    store = store_of(settings, context, git)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        return context.redact(find_baseline(store, git, Path(private) / "baseline").reason)


async def gate_with_store(
    settings: Settings, context: RunContext, show: Callable[[GateOutcome], None], *, shards: Shards | None = None
) -> GateOutcome:
    """`gate` with the newest baseline of the store. Then `show` is called; then the run is kept, if it may be.

    Raises BaselineError if a run that passed should be kept and can't be.
    """
    git = Git(settings.root.absolute(), context.environ)
    commit = git.head()
    store = store_of(settings, context, git)
    refusal = refusal_of(context.environ, git, settings.gate.baseline_branch)
    inputs = read_inputs(settings)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        found = find_baseline(store, git, Path(private) / "baseline")
        context.say(context.redact(found.reason))
        history, damage = _history(found)
        notes = (*((found.reason,) if found.run is None else ()), *damage)
        inputs = replace(
            inputs,
            baseline=found.run,
            links=Links(baseline_name=found.name),
            book=inputs.book or Book(history, main=refusal is None),
            role=Role(refusal=refusal, carries=refusal is None),
            warnings=(*inputs.warnings, *notes),
            shards=shards,
        )
        outcome = await gate(settings, context, inputs)
    show(outcome)
    if settings.gate.save_baseline:
        _keep(store, git, commit, outcome, refusal, context)
    return outcome


async def shard_with_store(settings: Settings, context: RunContext) -> RunDirectory:
    """`evaluate_shard` with the newest baseline of the store. Nothing is kept: the merged run may be."""
    git = Git(settings.root.absolute(), context.environ)
    git.head()
    store = store_of(settings, context, git)
    inputs = read_inputs(settings)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        found = find_baseline(store, git, Path(private) / "baseline")
        context.say(context.redact(found.reason))
        return await evaluate_shard(settings, context, replace(inputs, baseline=found.run))


def _keep(
    store: BaselineStore, git: Git, commit: str, outcome: GateOutcome, refusal: str | None, context: RunContext
) -> None:
    if refusal is not None or outcome.run is None:
        context.say(f"The run is not kept as a baseline: {refusal or 'there was nothing to run'}.")
        return
    if outcome.run.manifest.system.commit != commit:
        context.say("The run is not kept as a baseline: it is of another commit than the one that is checked out.")
        return
    try:
        place = store.keep(commit, outcome.run.path, git.ancestors())
    except StoreFailed as failed:
        if outcome.exit_code:
            context.say(f"The run could not be kept in the store: {context.redact(str(failed))}.")
            return
        raise BaselineError(
            f"the run passed, but could not be kept in the store: {context.redact(str(failed))}.",
            where="gate.save_baseline",
            hint="Without it, later merge requests are compared with an older run, or with none.",
        ) from None
    fact = outcome.run.manifest.standing
    what = "as a baseline" if fact.eligible else f"with the baseline it was compared with ({fact.reason})"
    context.say(context.redact(f"Kept in {place}, {what}."))


def _history(found: StoredBaseline) -> tuple[History, tuple[str, ...]]:
    if found.history is None:
        return History(), ()
    try:
        return parse_history(found.history, HISTORY), ()
    except RagstoneError as error:
        return History(), (f"The history can't be used, so drift is not measured: {error.message}",)
