"""The gate with a baseline from a folder that keeps the runs of a branch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import BaselineError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.baseline_folder import BaselineFolder
from ragstone.pipeline.baseline_search import (
    Comparison,
    StoreFailed,
    open_baseline_in,
)
from ragstone.pipeline.gate import GateOutcome, gate
from ragstone.pipeline.gate_request import gate_request
from ragstone.pipeline.git import Git
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.role import Role
from ragstone.printable import shown_name
from ragstone.report.parts import Links
from ragstone.settings.settings import Settings

DEFAULT_BRANCH = "main"
_SETTING = "gate.baseline_folder"


class CheckoutFolder(Struct, frozen=True):
    """The folder in the settings, for the commit that is checked out."""

    git: Git
    store: BaselineFolder
    commit: str

    @classmethod
    def of(cls, settings: Settings, context: RunContext) -> CheckoutFolder:
        """Raises ConfigError."""
        git = Git(settings.root.absolute(), context.environ, _SETTING)
        commit = git.head()
        folder = settings.path(settings.gate.baseline_folder or "").absolute()
        store = BaselineFolder(folder, git.ancestors(), git.is_shallow())
        return cls(git, store, commit)


def _sentence(comparison: Comparison) -> str:
    """What was found in a folder."""
    trusted = comparison.trusted
    if trusted is None:
        return comparison.reason
    return f"Baseline: commit {trusted.sha[:12]}, {trusted.created_at}, from {trusted.place}."


def look_up(settings: Settings, context: RunContext) -> str:
    """What the gate would find in the folder, in a sentence. Raises ConfigError."""
    folder = CheckoutFolder.of(settings, context)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        comparison = open_baseline_in(folder.store, Path(private) / "baseline")
    return context.redact(_sentence(comparison))


async def gate_with_folder(
    settings: Settings, context: RunContext, show: Callable[[GateOutcome], None]
) -> GateOutcome:
    """`gate` with the newest baseline of the folder. Then `show` is called; then the
    run is saved, if it may be.

    Raises BaselineError if a run that passed should be saved and can't be.
    """
    folder = CheckoutFolder.of(settings, context)
    refusal = why_no_baseline(folder.git, settings.gate.baseline_branch)
    request = gate_request(settings, context)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        comparison = open_baseline_in(folder.store, Path(private) / "baseline")
        context.say(context.redact(_sentence(comparison)))
        name, warnings = None, comparison.damage
        if comparison.trusted is None:
            warnings = (comparison.reason, *warnings)
        else:
            name = f"commit {comparison.trusted.sha[:12]}"
        request = replace(
            request,
            baseline=comparison.run,
            links=Links(baseline_name=name),
            past=request.past or RunHistory(comparison.history, main=refusal is None),
            role=Role(refusal=refusal, carries=refusal is None),
            warnings=warnings,
            unproven=comparison.unproven,
        )
        outcome = await gate(request, context)
    show(outcome)
    if settings.gate.save_baseline:
        _save(folder, outcome, refusal, context)
    return outcome


def why_no_baseline(git: Git, branch: str | None) -> str | None:
    """Why the checkout's run can't be a baseline whatever its verdict, as a clause;
    None if it can.

    `branch` is the branch whose runs are baselines (None: DEFAULT_BRANCH). git says
    which commits it has: no variable of a CI system does, and no name that the author
    of a change can choose.
    """
    branch = branch or DEFAULT_BRANCH
    if git.branch_has_head(branch):
        return None
    return f"its commit is not on '{branch}', whose runs are baselines"


def _save(
    folder: CheckoutFolder,
    outcome: GateOutcome,
    refusal: str | None,
    context: RunContext,
) -> None:
    run = outcome.run
    if run is not None and run.manifest.system.commit != folder.commit:
        refusal = refusal or "it is of another commit than the one that is checked out"
    if run is None or refusal is not None:
        context.say(f"The run was not saved as a baseline: {refusal}.")
        return
    try:
        place = folder.store.save(folder.commit, run.path)
    except StoreFailed as failed:
        problem = f"could not be saved to the folder: {context.redact(str(failed))}."
        if outcome.exit_code:
            context.say(f"The run {problem}")
            return
        raise BaselineError(
            f"the run passed, but {problem}",
            where="gate.save_baseline",
            hint="Without it, later changes are compared with an older run, or with none.",
        ) from None
    fact, what = run.manifest.standing, "as a baseline"
    if not fact.eligible:
        what = f"with the baseline it was compared with ({fact.reason})"
    context.say(context.redact(f"Saved to {shown_name(str(place))}, {what}."))
