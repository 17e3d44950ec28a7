"""The shipped templates, and the one place that loads and renders a template, ours or a
user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from traceback import walk_tb

from jinja2 import (
    Environment,
    FunctionLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
)
from msgspec import Struct

from ragstone import formatting
from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular, shipped
from ragstone.printable import clean, shown_name
from ragstone.report import escape
from ragstone.report.escape import clean_line, markdown_inline
from ragstone.report.sandbox import ReportEnvironment, SafeText
from ragstone.report.template_cache import TemplateCache

REPORT = "report.md.j2"
FOLDER = "templates"
PACKAGE = __name__
OURS = f"ragstone/{REPORT}"

_SHOWN = (
    "change",
    "counted",
    "dollars",
    "percent",
    "score",
    "seconds",
)
FILTERS: Mapping[str, Callable[..., str]] = {
    **{name: getattr(formatting, name) for name in _SHOWN},
    "some": formatting.join_first,
    "whole": formatting.rounded,
    "shown_name": shown_name,
}
"""How templates write numbers, and the names of files."""

ENDING = ".j2"
_MAX_SIZE = 256 * 1024
_MAX_FILES = 200
"""In a folder of templates, of any kind."""


_ERRORS = (
    TemplateError,
    SyntaxError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""What a wrong template raises."""


class Templates(Struct, frozen=True):
    """A project's own templates as they were read: their texts by name. Nothing is
    looked up on disk after that."""

    folder: Path
    sources: Mapping[str, str]


def own_templates(project: Path, within: Path | None = None) -> Templates | None:
    """The templates of `project`, or None where it has no report template of its own.
    As `read_templates`."""
    return read_templates(project / FOLDER, within)


def read_templates(folder: Path, within: Path | None = None) -> Templates | None:
    """The templates (``*.j2``) in `folder`, or None where there is no report template
    among them.

    Raises ConfigError for one that can't be read, leads out of the folder, is not
    UTF-8, or is too large.
    """
    if not os.path.lexists(folder / REPORT):
        return None
    root = Path(os.path.realpath(folder))
    if within is not None and not root.is_relative_to(os.path.realpath(within)):
        raise _unusable("it is outside the workspace", str(folder / REPORT))
    files_here = list(islice(folder.rglob("*"), _MAX_FILES + 1))
    if len(files_here) > _MAX_FILES:
        raise ConfigError(
            f"more than {_MAX_FILES} files in a folder of templates.", where=str(folder)
        )
    paths = sorted(
        path for path in files_here if path.name.endswith(ENDING) and not path.is_dir()
    )
    return Templates(
        folder,
        {path.relative_to(folder).as_posix(): _source(path, root) for path in paths},
    )


def _source(path: Path, folder: Path) -> str:
    with disk_errors(path, "the template can't be read"):
        body = read_regular(path, within=folder, limit=_MAX_SIZE)
    try:
        # Nothing that a log would act upon: the text of a template is printed as it is.
        return clean(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("the template is not UTF-8.", where=str(path)) from None


def read_template(name: str, package: str = PACKAGE) -> str:
    return shipped(name, package).read_text(encoding="utf-8")


def render_text_template(name: str, package: str, **values: object) -> str:
    """The shipped template of plain text called `name`, of `package`, without the last
    line break.

    Filters are FILTERS, and `line`. Nothing else is escaped: what prints the text makes
    it harmless.
    """
    return text_environment(package).get_template(name).render(values).rstrip("\n")


def render_lines(name: str, package: str, **values: object) -> list[str]:
    """The lines of `render_text_template`; none if it writes nothing."""
    text = render_text_template(name, package, **values)
    if not text:
        return []
    return text.split("\n")


@cache
def text_environment(package: str) -> Environment:
    """Renders the templates of plain text of `package`."""
    environment = Environment(  # noqa: S701 - no HTML
        loader=FunctionLoader(partial(read_template, package=package)),
        bytecode_cache=TemplateCache(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, line=escape.escape_terminal_line)
    return environment


def render_template(
    name: str,
    context: Mapping[str, object],
    filters: Mapping[str, Callable[..., SafeText | str]],
    own: Templates | None,
) -> str:
    """Render the Markdown template `name` in a sandbox.

    Raises ConfigError with file and line for anything that is wrong with the template.
    """

    def source_of(name: str) -> tuple[str, str | None, None] | None:
        """``ragstone/NAME`` is ours; any other name is one of the user's templates."""
        if name == OURS:
            return read_template(REPORT), OURS, None
        if own is None or name not in own.sources:
            return None
        return own.sources[name], str(own.folder / name), None

    loader = FunctionLoader(source_of)
    environment = ReportEnvironment(loader, markdown_inline, filters)
    if own is None:
        environment.bytecode_cache = TemplateCache("sandbox")
    try:
        return str(environment.get_template(name).render(context))
    except _ERRORS as error:
        message = str(error)
        if isinstance(error, TemplateNotFound):
            message = f"no template called '{error.name}'"
        where = name
        for frame, line in walk_tb(error.__traceback__):
            if frame.f_code.co_filename.endswith(ENDING):
                where = f"{frame.f_code.co_filename}:{line}"
        raise _unusable(message, where) from None


def _unusable(message: str, where: str) -> ConfigError:
    return ConfigError(
        f"the report template can't be used: {clean_line(message)}.",
        where=where,
        hint=f"Extend '{OURS}' and override its blocks; docs/reports.md lists them and what they may use.",
    )
