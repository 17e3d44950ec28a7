"""The report templates of a job: those of the reviewed base, whatever the checkout has
in their place."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.github.api.client import GitHubApiError
from ragstone.github.commit_files import BaseFiles, BaseUnreadable
from ragstone.report.templates import ENDING, FOLDER, Templates, own_templates
from ragstone.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ReviewedTemplates:
    """The templates to use, None for the built-in one, and notes on those of the
    checkout that don't count."""

    templates: Templates | None
    notes: tuple[str, ...] = ()


def reviewed_templates(settings: Settings, base_files: BaseFiles) -> ReviewedTemplates:
    """The templates that count. Raises ConfigError for templates that can't be read."""
    own = own_templates(settings.root, settings.within)
    if own is None:
        return ReviewedTemplates(None)
    try:
        commit = base_files.commit
        if commit is None:  # the checkout is the base itself
            return ReviewedTemplates(own)
        place = (commit.place / FOLDER).as_posix()
        names = [
            name
            for name in commit.list()
            if name.startswith(f"{place}/") and name.endswith(ENDING)
        ]
        folder = commit.new_folder()
        commit.read(names, folder)
    except (BaseUnreadable, GitHubApiError) as unreadable:
        why = f"The report templates are not used, because the base branch can't be read: {unreadable}."
        return ReviewedTemplates(None, (why,))
    base = own_templates(folder / commit.place, folder)
    if base is not None and base.sources == own.sources:
        return ReviewedTemplates(base)
    return ReviewedTemplates(base, (_DIFFERS,))


_DIFFERS = "The report templates in this checkout differ from those of the base branch: they count after the merge."
