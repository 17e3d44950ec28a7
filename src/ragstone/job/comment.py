"""The report as one comment on the merge request, updated from run to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ragstone.app.gate import REPORT_FILES
from ragstone.ci.azure import post_thread
from ragstone.ci.gitlab import post_note
from ragstone.ci.http import ApiRefused
from ragstone.ci.jobs import job_of
from ragstone.errors import ConfigError, PlatformError
from ragstone.files import read_regular

_MAX_BODY = 150_000 - 1_000
"""Characters that Azure DevOps allows in a comment, with room for the marker. GitLab allows a million."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,50}")
_POSTERS = {"GitLab CI": post_note, "Azure Pipelines": post_thread}


def comment(run: Path, environ: Mapping[str, str], *, name: str = "ragstone") -> str:
    """Post the Markdown report of `run` on the merge request of this job; what was done, in one sentence.

    `name` tells the comments of several gates apart. Raises ConfigError, PlatformError.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"'{name}' can't name a comment.", hint="Use letters, digits, '.', '_' and '-'.")
    path = run / REPORT_FILES["md"]
    try:
        body = read_regular(path, within=run, limit=4 * _MAX_BODY).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(
            f"the report can't be read: {error.strerror}.", where=str(path), hint="`ragstone gate` writes it."
        ) from None
    job = job_of(environ)
    if job is None or job.system not in _POSTERS:
        here = "outside of GitLab CI and Azure Pipelines" if job is None else f"on {job.system}"
        raise ConfigError(f"a comment can't be posted {here}.", hint=f"The report is {path} (docs/other-ci.md).")
    if job.request is None:
        return "This is not a job of a merge request, so there is nothing to comment on."
    if len(body) > _MAX_BODY:
        body = body[:_MAX_BODY] + "\n\n(cut)"
    try:
        updated = _POSTERS[job.system](environ, job.request, f"<!-- ragstone:comment:{name} -->", body)
    except ApiRefused as refused:
        raise PlatformError(f"{job.system}: {refused}.") from None
    except (KeyError, TypeError, ValueError):
        raise PlatformError(f"{job.system}: the reply has another shape than its API documents.") from None
    return f"{'Updated' if updated else 'Posted'} the comment on merge request {job.request}."
