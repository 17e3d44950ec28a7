"""Renders self-contained HTML pages, each with a content security policy that allows only
its own styles and script.

A page is a template that extends ``page.html.j2``. Everything that it prints is escaped,
with every character visible, unless it is `Verbatim`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ragstone import formatting
from ragstone.report.escape import escape_markup
from ragstone.report.filters import FILTERS
from ragstone.report.template_cache import TemplateCache
from ragstone.report.templates import PACKAGE, read_template

_BASE_TEMPLATE = "page.html.j2"


class Verbatim(str):
    """Text that is printed without escaping: shipped styles and scripts, and data in which
    nothing can end its element."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def render_page(
    template: str,
    *,
    package: str = PACKAGE,
    styles: Sequence[str],
    script: str = "",
    **values: object,
) -> str:
    """Render `template`, a file of `package`, with `values`. `styles` and `script` become
    part of the page."""
    script_hashes = _hash_sources([script] if script else [])
    policy = (
        f"default-src 'none'; style-src {_hash_sources(styles)}; script-src {script_hashes}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = html_environment(package).get_template(template)
    return page.render(
        **values,
        styles=list(map(Verbatim, styles)),
        script=Verbatim(script),
        policy=policy,
    )


@cache
def html_environment(package: str) -> Environment:
    """Return the environment of the HTML and XML templates of `package`."""
    environment = Environment(
        loader=FunctionLoader(
            lambda name: read_template(
                name, PACKAGE if name == _BASE_TEMPLATE else package
            )
        ),
        bytecode_cache=TemplateCache(f"{package}.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(FILTERS)
    return environment


def _finalize(value: object) -> object:
    if type(value) is str:
        return escape_markup(value)
    if value is None:
        return formatting.NONE
    return value


def _hash_sources(texts: Sequence[str]) -> str:
    """Return the sources of a content security policy that allow these texts."""
    digests = (hashlib.sha256(text.encode("utf-8")).digest() for text in texts)
    return " ".join(
        f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests
    )
