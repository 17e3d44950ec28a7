"""The report templates of a job: those of the reviewed base, whatever the checkout has in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.github.api.base_files import list_base_files, read_base_files
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.reviewed import ReviewedBase, base_commit
from ragstone.report.templates import ENDING, FOLDER, Templates, own_templates
from ragstone.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ReviewedTemplates:
    """The templates to use, None for the built-in one, and notes on those of the checkout that don't count."""

    templates: Templates | None
    notes: Sequence[str] = ()


def reviewed_templates(
    settings: Settings, *, reviewed: ReviewedBase, api: GitHubApi | None, workspace: Path, folder: Path
) -> ReviewedTemplates:
    """The templates that count. `folder`, which must not exist yet, is for files of the base.

    Raises ConfigError for templates that can't be read.
    """
    own = own_templates(settings.root, settings.within)
    if own is None:
        return ReviewedTemplates(None)
    if api is None:
        return ReviewedTemplates(None, (_unreadable("there is no GitHub token"),))
    place = (settings.root.resolve().relative_to(workspace.resolve()) / FOLDER).as_posix()
    try:
        commit = base_commit(api, reviewed)
        if commit is None:  # the checkout is the base itself
            return ReviewedTemplates(own)
        files = list_base_files(api, commit)
        names = [name for name in files if name.startswith(f"{place}/") and name.endswith(ENDING)]
        read_base_files(api, commit, names, folder)
    except GitHubApiError as api_error:
        return ReviewedTemplates(None, (_unreadable(str(api_error)),))
    base = own_templates(folder / place.removesuffix(FOLDER), folder)
    if base is not None and base.sources == own.sources:
        return ReviewedTemplates(base)
    return ReviewedTemplates(base, (_DIFFERS,))


_DIFFERS = "The report templates in this checkout differ from those of the base branch: they count after the merge."


def _unreadable(why: str) -> str:
    return f"The report templates are not used, because the base branch can't be read: {why}."
