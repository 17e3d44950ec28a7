"""The gate with a baseline from a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.app.gate import GateOutcome, bar_of, gate
from ragstone.app.history import RunHistory
from ragstone.app.role import Role
from ragstone.ci.platforms import PLATFORMS, job_of
from ragstone.ci.store import BaselineStore, StoreFailed
from ragstone.config.settings import Settings
from ragstone.errors import BaselineError, ConfigError, RunDirectoryError
from ragstone.job.baseline import NoBaseline, find_baseline, history_from
from ragstone.job.stores.folder import FolderStore
from ragstone.project.gate import gate_request
from ragstone.project.git import Git
from ragstone.report.parts import Links
from ragstone.rounds.context import RunContext
from ragstone.run.directory import RunDirectory

DEFAULT_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class Found:
    """What a store has for the checkout: the baseline and its name, or None; a sentence on it; and the history."""

    run: RunDirectory | None
    reason: str
    history: bytes | None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CheckoutStore:
    """The store in the settings, for the commit that is checked out."""

    git: Git
    store: BaselineStore
    commit: str

    @classmethod
    def of(cls, settings: Settings, context: RunContext) -> CheckoutStore:
        """Raises ConfigError, also if another baseline is named beside the store."""
        git = Git(settings.root.absolute(), context.environ, "gate.baseline_store")
        commit = git.head()
        others = [name for name in ("baseline", "baseline_commit") if getattr(settings.gate, name) is not None]
        if others:
            raise ConfigError(
                f"there are two baselines, a store and --{others[0].replace('_', '-')}.",
                where="gate.baseline_store",
                hint="Use one of them.",
            )
        name, out = settings.gate.baseline_store or "", settings.path(settings.run.out)
        return cls(git, open_store(name, root=settings.root, out=out, environ=context.environ), commit)

    def find(self, directory: Path) -> Found:
        found = find_baseline(self.store, self.git.ancestors())
        if isinstance(found, NoBaseline):
            shallow = found.is_empty and self.git.is_shallow()
            return Found(None, f"{found.reason}{_SHALLOW if shallow else ''}", found.history)
        try:
            run = found.materialise(directory)
        except RunDirectoryError as error:
            return Found(None, f"The baseline in {found.place} can't be used: {error.message}", found.history)
        name = f"commit {found.sha[:12]}"
        return Found(run, f"Baseline: {name}, {found.created_at}, from {found.place}.", found.history, name)


_SHALLOW = " This is a shallow clone: fetch the commits before this one, whose runs are in the store."


def look_up(settings: Settings, context: RunContext) -> str:
    """What the gate would find in the store, in a sentence. Raises ConfigError."""
    store = CheckoutStore.of(settings, context)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        return context.redact(store.find(Path(private) / "baseline").reason)


async def gate_with_store(settings: Settings, context: RunContext, show: Callable[[GateOutcome], None]) -> GateOutcome:
    """`gate` with the newest baseline of the store. Then `show` is called; then the run is saved, if it may be.

    Raises BaselineError if a run that passed should be saved and can't be.
    """
    store = CheckoutStore.of(settings, context)
    refusal = refusal_of(context.environ, store.git, settings.gate.baseline_branch)
    request = gate_request(settings, context)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        found = store.find(Path(private) / "baseline")
        context.say(context.redact(found.reason))
        history, damage = history_from(found.history)
        notes = (*((found.reason,) if found.run is None else ()), *((damage,) if damage is not None else ()))
        request = replace(
            request,
            baseline=found.run,
            links=Links(baseline_name=found.name),
            past=request.past or RunHistory(history, main=refusal is None),
            role=Role(refusal=refusal, carries=refusal is None),
            warnings=notes,
        )
        if job_of(context.environ) is not None:
            bar = await bar_of(request, context)
            context.say(bar.line())  # before the system is started
            request = replace(request, bar=bar)
        outcome = await gate(request, context)
    show(outcome)
    if settings.gate.save_baseline:
        _save(store, outcome, refusal, context)
    return outcome


def refusal_of(environ: Mapping[str, str], git: Git, branch: str | None) -> str | None:
    """Why this job's run can't be a baseline whatever its verdict, as a clause; None if it can.

    `branch` is the branch whose runs are baselines (None: the default branch, as far as the CI system says it).
    """
    job = job_of(environ)
    if job is not None and job.request is not None:
        return "a merge request's run can't be one"
    ours = branch or (job.default_branch if job is not None else None) or DEFAULT_BRANCH
    built = job.branch if job is not None else git.branch()
    if built != ours:
        return f"it ran on {f'branch {built!r}' if built else 'no branch'}, and baselines come from '{ours}'"
    if job is not None and job.protected is False and built != job.default_branch:
        return f"'{built}' is neither the default branch nor protected"
    return None


def _save(store: CheckoutStore, outcome: GateOutcome, refusal: str | None, context: RunContext) -> None:
    if refusal is not None or outcome.run is None:
        context.say(f"The run was not saved as a baseline: {refusal or 'there was nothing to run'}.")
        return
    if outcome.run.manifest.system.commit != store.commit:
        context.say("The run was not saved as a baseline: it is of another commit than the one that is checked out.")
        return
    try:
        place = store.store.save(store.commit, outcome.run.path, store.git.ancestors())
    except StoreFailed as failed:
        if outcome.exit_code:
            context.say(f"The run could not be saved to the store: {context.redact(str(failed))}.")
            return
        raise BaselineError(
            f"the run passed, but could not be saved to the store: {context.redact(str(failed))}.",
            where="gate.save_baseline",
            hint="Without it, later merge requests are compared with an older run, or with none.",
        ) from None
    fact = outcome.run.manifest.standing
    what = "as a baseline" if fact.eligible else f"with the baseline it was compared with ({fact.reason})"
    context.say(context.redact(f"Saved to {place}, {what}."))


def open_store(name: str, *, root: Path, out: Path, environ: Mapping[str, str]) -> BaselineStore:
    """The store called `name`, such as ``folder:baselines``. Runs are written to `out`. Raises ConfigError."""
    scheme, _, rest = name.partition(":")
    if scheme == "folder" and rest:
        return FolderStore((root / rest).absolute())
    for platform in PLATFORMS:
        if platform.store is not None and platform.store.scheme == scheme:
            return platform.store.open(platform.variables(environ), rest, out)
    raise ConfigError(f"'{name}' is not a baseline store.", where="gate.baseline_store", hint=f"Use {_forms()}.")


def _forms() -> str:
    stores = [one.store for one in PLATFORMS if one.store is not None]
    own = [form for store in stores for form in (store.scheme, f"{store.scheme}:{store.argument}")]
    return f"{', '.join(('folder:PATH', *own[:-1]))}, or {own[-1]} (docs/other-ci.md)"
