"""The shipped templates, and the one place that loads and renders a template, ours or a user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from traceback import walk_tb

from jinja2 import BaseLoader, Environment, TemplateError, TemplateNotFound, TemplateSyntaxError

from ragstone.errors import ConfigError
from ragstone.report.escape import markdown_inline, one_line
from ragstone.report.sandbox import ExhaustedError, SafeText, TemplateSandbox

REPORT = "report.md.j2"
FOLDER = "templates"
OURS = f"ragstone/{REPORT}"

_MAX_SIZE = 256 * 1024


class TemplateExhaustedError(ConfigError):
    """A template did more work, or wrote more, than it is allowed."""


def own_templates(project: Path) -> Path | None:
    """The folder of `project` with a report template of its own, or None."""
    folder = project / FOLDER
    return folder if (folder / REPORT).is_file() else None


def read_template(name: str) -> str:
    """The shipped template called `name`."""
    return (files(__name__) / name).read_text(encoding="utf-8")


class _Loader(BaseLoader):
    """``ragstone/NAME`` is ours; any other name is a file in the user's folder, never outside of it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:  # noqa: ARG002
        if template == OURS:
            return read_template(REPORT), template, lambda: True
        if self._folder is None:
            raise TemplateNotFound(template)
        root = self._folder.resolve()
        path = (root / template).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            raise TemplateNotFound(template)
        shown = str(self._folder / template)
        with path.open("rb") as file:
            body = file.read(_MAX_SIZE + 1)
        if len(body) > _MAX_SIZE:
            raise ConfigError("the template is larger than 256 KB.", where=shown)
        try:
            return body.decode("utf-8-sig"), shown, lambda: True
        except UnicodeDecodeError:
            raise ConfigError("the template is not UTF-8.", where=shown) from None


def render_template(
    name: str,
    context: Mapping[str, object],
    filters: Mapping[str, Callable[..., SafeText | str]],
    folder: Path | None,
) -> str:
    """Render the Markdown template `name` in a sandbox.

    `context` is plain data. Raises ConfigError with file and line for anything that is wrong with the template.
    """
    environment = TemplateSandbox(_Loader(folder), markdown_inline, filters)
    try:
        return str(environment.get_template(name).render(context))
    except TemplateSyntaxError as error:
        raise _wrong(error.message or "syntax error", error.filename or error.name or name, error.lineno) from None
    except TemplateNotFound as error:
        raise _wrong(f"no template called '{error.name}'", name, None) from None
    except RecursionError:
        raise _wrong("the template calls itself without end", name, None) from None
    except ExhaustedError as error:
        file, line = _place(error, name)
        raise _wrong(str(error), file, line, TemplateExhaustedError) from None
    except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        file, line = _place(error, name)
        raise _wrong(str(error), file, line) from None


def _place(error: Exception, name: str) -> tuple[str, int | None]:
    found: tuple[str, int | None] = (name, None)
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename.endswith(".j2"):
            found = (frame.f_code.co_filename, line)
    return found


def _wrong(message: str, file: str, line: int | None, kind: type[ConfigError] = ConfigError) -> ConfigError:
    return kind(
        f"the report template can't be used: {one_line(message)}.",
        where=file if line is None else f"{file}:{line}",
        mend=f"Extend '{OURS}' and override its blocks; docs/reports.md lists them and what they may use.",
    )
