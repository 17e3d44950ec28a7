"""The shipped templates, and the functions that load and render them and a project's
own."""

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
"""The name of the template of the Markdown report."""

SHIPPED_REPORT = f"ragstone/{REPORT}"
"""The name by which a project's template can extend the shipped one."""

FOLDER = "templates"
"""The folder of a project's own templates, next to its config file."""

PACKAGE = __name__
"""The package of the shipped templates of reports."""

_FORMATTING_FUNCTIONS = (
    "change",
    "counted",
    "dollars",
    "percent",
    "score",
    "seconds",
)
FILTERS: Mapping[str, Callable[..., str]] = {
    **{name: getattr(formatting, name) for name in _FORMATTING_FUNCTIONS},
    "some": formatting.join_first,
    "whole": formatting.rounded,
    "shown_name": shown_name,
}
"""The filters of all templates for numbers, lists and the names of files."""

ENDING = ".j2"

_MAX_TEMPLATE_BYTES = 256 * 1024

_MAX_FILES = 200
"""Maximum number of files, of any kind, in a folder of templates."""

_TEMPLATE_ERRORS = (
    TemplateError,
    SyntaxError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""The errors that rendering an invalid template raises."""


class Templates(Struct, frozen=True):
    """A project's own templates, which are read once."""

    folder: Path
    sources: Mapping[str, str]
    """The text of each template, by its path in the folder."""


def own_templates(project: Path, within: Path | None = None) -> Templates | None:
    """Read the own templates of `project` (see `read_templates`)."""
    return read_templates(project / FOLDER, within)


def read_templates(folder: Path, within: Path | None = None) -> Templates | None:
    """Read the templates (``*.j2``) in `folder`; None if it has no template of the
    report.

    Raises ConfigError if the folder is outside `within` or has too many files, or for a
    template that can't be read, leads out of the folder, is not UTF-8 or is too large.
    """
    if not os.path.lexists(folder / REPORT):
        return None
    root = Path(os.path.realpath(folder))
    if within is not None and not root.is_relative_to(os.path.realpath(within)):
        raise _template_error("it is outside the workspace", str(folder / REPORT))
    files = list(islice(folder.rglob("*"), _MAX_FILES + 1))
    if len(files) > _MAX_FILES:
        raise ConfigError(
            f"more than {_MAX_FILES} files in a folder of templates.",
            where=str(folder),
            hint="Keep only templates in this folder.",
        )
    paths = sorted(
        path for path in files if path.name.endswith(ENDING) and not path.is_dir()
    )
    sources = {
        path.relative_to(folder).as_posix(): _read_source(path, root) for path in paths
    }
    return Templates(folder, sources)


def _read_source(path: Path, folder: Path) -> str:
    with disk_errors(path, "the template can't be read"):
        body = read_regular(path, within=folder, limit=_MAX_TEMPLATE_BYTES)
    try:
        # The text of a template is printed without escaping.
        return clean(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("the template is not UTF-8.", where=str(path)) from None


def read_template(name: str, package: str = PACKAGE) -> str:
    return shipped(name, package).read_text(encoding="utf-8")


def render_text_template(name: str, package: str, **values: object) -> str:
    """Render the text template `name` of `package`, without the last line break.

    Only what the filter `line` returns is escaped; the caller escapes the text before it
    is printed.
    """
    return text_environment(package).get_template(name).render(values).rstrip("\n")


def render_lines(name: str, package: str, **values: object) -> list[str]:
    """Return the lines of a text template; none if it is empty."""
    text = render_text_template(name, package, **values)
    if not text:
        return []
    return text.split("\n")


@cache
def text_environment(package: str) -> Environment:
    """Return the environment of the text templates of `package`."""
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
    """Render the Markdown template `name` in a sandbox: SHIPPED_REPORT, or one of the
    project's `own`.

    Raises ConfigError, with file and line, if the template is invalid.
    """

    def load(name: str) -> tuple[str, str | None, None] | None:
        """Return text and file of a template, as Jinja expects; None if there is none."""
        if name == SHIPPED_REPORT:
            return read_template(REPORT), SHIPPED_REPORT, None
        if own is None or name not in own.sources:
            return None
        return own.sources[name], str(own.folder / name), None

    loader = FunctionLoader(load)
    environment = ReportEnvironment(loader, markdown_inline, filters)
    if own is None:
        environment.bytecode_cache = TemplateCache("sandbox")
    try:
        return str(environment.get_template(name).render(context))
    except _TEMPLATE_ERRORS as error:
        message = str(error)
        if isinstance(error, TemplateNotFound):
            message = f"no template called '{error.name}'"
        # The last frame of a template is where the error was raised.
        where = name
        for frame, line in walk_tb(error.__traceback__):
            if frame.f_code.co_filename.endswith(ENDING):
                where = f"{frame.f_code.co_filename}:{line}"
        raise _template_error(message, where) from None


def _template_error(message: str, where: str) -> ConfigError:
    return ConfigError(
        f"the report template can't be used: {clean_line(message)}.",
        where=where,
        hint=f"Extend '{SHIPPED_REPORT}' and override its blocks; docs/reports.md lists them and what they may use.",
    )
