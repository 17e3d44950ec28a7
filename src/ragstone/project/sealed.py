"""Reads the sealed golden files: only where nobody who proposes a change can read or ask them."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.ci.platforms import job_of
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.load import find_files, load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.rounds.context import RunContext
from ragstone.rounds.session import SealedSet
from ragstone.run.manifest import MIN_SEALED

_WHERE = "golden.sealed"


def sealed_set(settings: Settings, golden: GoldenSet, context: RunContext) -> SealedSet | None:
    """The sealed set, if it is asked for; never in a CI job that is not of the default branch, whatever its settings.

    Raises ConfigError for files of this repository, and GoldenSetError, neither with any text of the questions.
    """
    if not settings.gate.ask_sealed:
        return None
    job = job_of(context.environ)
    if job is not None and (job.branch is None or job.default_branch not in (None, job.branch)):
        context.say("the sealed questions are not asked: this job is not one of the default branch")
        return None
    wanted = settings.golden
    if not wanted.sealed:
        hint = "Name files outside of this repository in golden.sealed, or RAGSTONE_SEALED."
        raise ConfigError("there are no sealed questions to ask.", where=_WHERE, hint=hint)
    try:
        paths = [source.path for source in find_files(wanted.sealed, settings.root)]
        if any(_tree(path.parent) == _tree(settings.root) for path in map(Path, map(os.path.realpath, paths))):
            raise ConfigError(
                "a sealed golden file must not lie in this repository: anyone who opens a pull request can read it "
                "there, and ask its questions.",
                where=_WHERE,
                hint="Check out another repository, or fetch the file, in a step of trusted jobs alone, to a place "
                "outside of this checkout.",
            )
        found = load_golden_set(paths, root=settings.root, columns=wanted.columns).only(lambda one: not one.draft)
        same = {one.part_hashes()[0] for one in golden} & {one.part_hashes()[0] for one in found}
    except ConfigError:
        raise
    except Exception as error:  # of any kind: its message may quote a question
        hint = "`ragstone golden stats FILE` says why, in a place where its output is nobody else's."
        message = f"the sealed golden set can't be read ({type(error).__name__})."
        raise GoldenSetError(message, where=_WHERE, hint=hint) from None
    if same:
        hint = "Divide a set with `ragstone golden split`, and keep only one part in this repository."
        raise GoldenSetError(
            f"{len(same):,} of the sealed questions are in the golden set too.", where=_WHERE, hint=hint
        )
    if len(found) < MIN_SEALED:
        message = (
            f"a sealed set needs {MIN_SEALED} questions, found {len(found)}: of fewer, a mean tells single scores."
        )
        raise GoldenSetError(message, where=_WHERE)
    return SealedSet(found, wanted.sealed_releases, wanted.sealed_drawn)


def _tree(folder: Path) -> Path:
    """The work tree that `folder` is in, which may be inside another one; itself outside of any."""
    real = Path(os.path.realpath(folder))
    return next((one for one in (real, *real.parents) if os.path.lexists(one / ".git")), real)
