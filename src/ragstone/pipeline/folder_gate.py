"""The gate with a baseline from a folder that keeps the runs of a branch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import BaselineError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.baseline_folder import BaselineFolder
from ragstone.pipeline.baseline_search import (
    NoBaseline,
    StoreFailed,
    find_baseline,
    history_from,
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
_SHALLOW = " This is a shallow clone: fetch the commits before this one, whose runs are in the folder."


@dataclass(frozen=True, slots=True)
class FolderBaseline:
    """What a folder has for the checkout: the baseline and its name, or None; a
    sentence on it; and the history.

    `unproven`: why a run without a baseline can't pass.
    """

    run: RunDirectory | None
    reason: str
    history: bytes | None
    name: str | None = None
    unproven: str | None = None


@dataclass(frozen=True, slots=True)
class CheckoutFolder:
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
        return cls(git, BaselineFolder(folder, git.ancestors()), commit)

    def find(self, directory: Path) -> FolderBaseline:
        baseline = find_baseline(self.store)
        history = baseline.history
        if isinstance(baseline, NoBaseline):
            reason = baseline.reason
            if baseline.is_empty and self.git.is_shallow():
                reason += _SHALLOW
            return FolderBaseline(None, reason, history, unproven=baseline.unproven)
        try:
            run = baseline.materialise(directory)
        except RunDirectoryError as error:
            reason = f"The baseline in {baseline.place} can't be used: {error.message}"
            return FolderBaseline(
                None, reason, history, unproven=f"Not proven. {reason}"
            )
        name = f"commit {baseline.sha[:12]}"
        reason = f"Baseline: {name}, {baseline.created_at}, from {baseline.place}."
        return FolderBaseline(run, reason, history, name)


def look_up(settings: Settings, context: RunContext) -> str:
    """What the gate would find in the folder, in a sentence. Raises ConfigError."""
    folder = CheckoutFolder.of(settings, context)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        return context.redact(folder.find(Path(private) / "baseline").reason)


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
        baseline = folder.find(Path(private) / "baseline")
        context.say(context.redact(baseline.reason))
        history, damage = history_from(baseline.history)
        warnings = [] if baseline.run is not None else [baseline.reason]
        warnings += [] if damage is None else [damage]
        request = replace(
            request,
            baseline=baseline.run,
            links=Links(baseline_name=baseline.name),
            past=request.past or RunHistory(history, main=refusal is None),
            role=Role(refusal=refusal, carries=refusal is None),
            warnings=tuple(warnings),
            unproven=baseline.unproven,
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
    if outcome.run is None:
        refusal = refusal or "there was nothing to run"
    elif outcome.run.manifest.system.commit != folder.commit:
        refusal = refusal or "it is of another commit than the one that is checked out"
    if refusal is not None or outcome.run is None:
        context.say(f"The run was not saved as a baseline: {refusal}.")
        return
    try:
        place = folder.store.save(folder.commit, outcome.run.path)
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
    fact, what = outcome.run.manifest.standing, "as a baseline"
    if not fact.eligible:
        what = f"with the baseline it was compared with ({fact.reason})"
    context.say(context.redact(f"Saved to {shown_name(str(place))}, {what}."))
