"""Write the history as a page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ragstone.app.history import damage
from ragstone.errors import RunDirectoryError
from ragstone.files import open_regular
from ragstone.gate.policy import Policy
from ragstone.golden.sample import Sample
from ragstone.history.codes import sample_code
from ragstone.history.file import History
from ragstone.run.files import replace_text, writing_to
from ragstone.tools.history_page.page import GENERATOR, Redact, SampleName, history_page, render_history
from ragstone.tools.history_page.production import read_monitor_report

INDEX = "index.html"
_HEAD = 16 * 1024
_ELSEWHERE = "Move it away, or use another folder with -o."


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """Where the page is, how many runs and characters it has, and what to tell the user."""

    path: Path
    runs: int
    size: int
    notes: tuple[str, ...] = ()


def write_page(
    folder: Path,
    history: History,
    policy: Policy,
    redact: Redact,
    *,
    title: str,
    golden: Iterable[Sample] = (),
    monitor: Path | None = None,
    repository: str | None = None,
) -> WrittenPage:
    """Write `folder`/index.html. `golden`: samples to name by id and question. `policy`: for its thresholds.
    `monitor`: the JSON report of a monitor, for its windows. `repository`: where commits and pull requests are.

    Other files of the folder stay. Raises RunDirectoryError for an index.html that is not such a page.
    """
    path = folder / INDEX
    _refuse_foreign(path)
    names = {sample_code(one.id, one.content_hash()): SampleName(one.id, one.question) for one in golden}
    production = None if monitor is None else read_monitor_report(monitor)
    page = history_page(history, policy, names=names, production=production, repository=repository, redact=redact)
    found = (*damage(history), *page.notes)
    text = render_history(page, notes=[redact(said) for said in found], title=redact(title))
    with writing_to(path):
        folder.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    return WrittenPage(path, len(history.runs), len(text), found)


def _refuse_foreign(path: Path) -> None:
    """Raise RunDirectoryError if `path` exists and was not written by this command."""
    if not os.path.lexists(path):
        return
    try:
        with open_regular(path) as stream:
            ours = GENERATOR.encode() in stream.read(_HEAD)
    except OSError as error:
        raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(path), hint=_ELSEWHERE) from None
    if not ours:
        raise RunDirectoryError("is not a page of `ragstone history report`.", where=str(path), hint=_ELSEWHERE)
