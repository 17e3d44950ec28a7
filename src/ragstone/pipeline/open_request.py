"""Opens the gate's request in a checkout, with the system of a base commit or with a
baseline from a folder that keeps the runs of a branch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import BaselineError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.base_checkout import base_from_git
from ragstone.pipeline.baseline_folder import BaselineFolder
from ragstone.pipeline.baseline_search import StoreFailed, open_baseline_in
from ragstone.pipeline.gate import GatedRun, GateRequest
from ragstone.pipeline.gate_request import gate_request
from ragstone.pipeline.git import Git
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.role import Role
from ragstone.printable import shown_name
from ragstone.report.parts import Links
from ragstone.settings.settings import Settings

DEFAULT_BRANCH = "main"
_SETTING = "gate.baseline_folder"


class OpenedRequest(Struct, frozen=True):
    """What the gate is asked for, and where to save its run, under which commit."""

    request: GateRequest
    folder: BaselineFolder | None = None
    """The folder to save the run in; None if the settings name none."""
    commit: str = ""
    refusal: str | None = None
    """Why the run must not be saved, as a clause."""

    def save(self, outcome: GatedRun, context: RunContext) -> None:
        """Save the run in the folder, unless there is none or the run can't be a
        baseline. Raises BaselineError if a run that passed can't be saved."""
        run = outcome.run
        if self.folder is None:
            return
        refusal = self.refusal
        if refusal is None and run.manifest.system.commit != self.commit:
            refusal = "its commit is not the one that is checked out"
        if refusal is not None:
            context.say(f"The run was not saved as a baseline: {refusal}.")
            return
        try:
            place = self.folder.save(self.commit, run.path)
        except StoreFailed as failed:
            problem = (
                f"could not be saved to the folder: {context.redact(str(failed))}."
            )
            if outcome.exit_code:
                context.say(f"The run {problem}")
                return
            raise BaselineError(
                f"the run passed, but {problem}",
                where="gate.save_baseline",
                hint="Make the folder writable. Without this run, later changes are compared with an older one, or with "
                "none.",
            ) from None
        standing = run.manifest.standing
        purpose = "as a baseline"
        if not standing.eligible:
            purpose = f"with the baseline it was compared with ({standing.reason})"
        context.say(context.redact(f"Saved to {shown_name(place)}, {purpose}."))


@contextmanager
def open_request(settings: Settings, context: RunContext) -> Iterator[OpenedRequest]:
    """What `settings` ask the gate for. The base commit that they name stays checked out
    for the block, and the newest baseline of their folder stays open.

    Raises BaselineError, and the errors of `gate_request`.
    """
    request = gate_request(settings, context)
    if settings.gate.baseline_commit is not None:
        with base_from_git(settings, context, request.policy) as base:
            yield OpenedRequest(replace(request, base=base))
        return
    if settings.gate.baseline_folder is None:
        yield OpenedRequest(request)
        return
    git = Git(settings.root.absolute(), context.environ, _SETTING)
    commit = git.head()
    path = settings.path(settings.gate.baseline_folder).absolute()
    folder = BaselineFolder(path, git.ancestors(), git.is_shallow())
    refusal = why_no_baseline(git, settings.gate.baseline_branch)
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        comparison = open_baseline_in(folder, Path(private) / "baseline")
        trusted, warnings = comparison.trusted, comparison.damage
        name = None
        if trusted is None:
            warnings = (comparison.reason, *warnings)
        else:
            name = f"commit {trusted.sha[:12]}"
            sentence = f"Baseline: {name}, {trusted.created_at}, from {trusted.place}."
            context.say(context.redact(sentence))
        request = replace(
            request,
            baseline=comparison.run,
            links=Links(baseline_name=name),
            past=request.past
            or RunHistory(comparison.history, is_main=refusal is None),
            role=Role(refusal=refusal, carries=refusal is None),
            warnings=warnings,
            unproven=comparison.unproven,
        )
        yield OpenedRequest(request, folder, commit, refusal)


def why_no_baseline(git: Git, branch: str | None) -> str | None:
    """Why the checkout's run can't be a baseline whatever its verdict, as a clause;
    None if it can.

    `branch` is the branch whose runs are baselines (default: DEFAULT_BRANCH). git tells
    which commits it has: variables of a CI system, and names that the author of a
    change can choose, are not trusted.
    """
    branch = branch or DEFAULT_BRANCH
    if git.branch_has_head(branch):
        return None
    return f"its commit is not on '{branch}', whose runs are baselines"
