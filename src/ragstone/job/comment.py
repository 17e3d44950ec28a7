"""The report as one comment on the merge request, updated from run to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ragstone.app.gate import REPORT_FILES
from ragstone.ci.comments import post_comment
from ragstone.ci.http import ApiRefused
from ragstone.ci.platforms import PLATFORMS, platform_of
from ragstone.errors import ConfigError, PlatformError, disk_errors
from ragstone.files import read_regular

_MAX_REPORT_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,50}")


def comment(run: Path, environ: Mapping[str, str], *, name: str = "ragstone") -> str:
    """Post the Markdown report of `run` on the merge request of this job; what was done, in one sentence.

    `name` tells the comments of several gates apart. Raises ConfigError, PlatformError.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"'{name}' can't name a comment.", hint="Use letters, digits, '.', '_' and '-'.")
    path = run / REPORT_FILES["md"]
    with disk_errors(path, "the report can't be read", hint="`ragstone gate` writes it."):
        body = read_regular(path, within=run, limit=_MAX_REPORT_BYTES).decode("utf-8", "replace")
    platform, job = platform_of(environ) or (None, None)
    if platform is None or job is None or platform.comments is None:
        known = [one.name for one in PLATFORMS if one.comments is not None]
        here = f"outside of {' and '.join(known)}" if platform is None else f"on {platform.name}"
        raise ConfigError(f"a comment can't be posted {here}.", hint=f"The report is {path} (docs/other-ci.md).")
    if job.request is None:
        return "This is not a job of a merge request, so there is nothing to comment on."
    mark = f"<!-- ragstone:comment:{name} -->"
    try:
        comments = platform.comments(platform.variables(environ), job.request)
        if len(body) > comments.limit:
            body = body[: comments.limit] + "\n\n(cut)"
        posted = post_comment(comments, mark, body)
    except ApiRefused as refused:
        raise PlatformError(f"{platform.name}: {refused}.") from None
    except (KeyError, TypeError, ValueError):
        raise PlatformError(f"{platform.name}: the reply has another shape than its API documents.") from None
    done = "Updated" if posted is not None and posted.updated else "Posted"
    return f"{done} the comment on merge request {job.request}."
