"""A project's own Markdown template: what it may do, what it can't, and when it is compiled."""

from __future__ import annotations

import re
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment, FileSystemBytecodeCache

from ragstone.errors import ConfigError
from ragstone.report import template_cache
from ragstone.report.html_page import html_environment
from ragstone.report.markdown import DETAIL_LEVELS, template_filters, template_values
from ragstone.report.render import render
from ragstone.report.templates import (
    PACKAGE,
    REPORT,
    Templates,
    read_template,
    read_templates,
    render_template,
    text_environment,
)
from tests.report.conftest import Text, helpdesk_report
from tests.report.hostile import every_fragment
from tests.report.test_escape import ACTIVE, parser, text_of

EXTENDS = '{% extends "ragstone/report.md.j2" %}\n'

FAILED = "## ❌ Blocked: Faithfulness fell from 0.89 to 0.80 on 48 questions; at most 0.02 is allowed."


def with_template(folder: Path, source: str) -> Templates:
    (folder / "report.md.j2").write_text(source, encoding="utf-8")
    found = read_templates(folder)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{% block header %}\n# Help desk: {{ report.verdict.status }}\n{% endblock %}", "\n\n# Help desk: fail\n"),
        ("{% block footer %}{{ super() }}\nAsk the *search* team.{% endblock %}", "\nAsk the *search* team."),
        ("{% block header %}{% include 'team.md.j2' %}{% endblock %}", "Ask the *search* team about fail."),
    ],
    ids=["replaced", "added to", "included"],
)
def test_a_block_can_be_replaced_or_added_to_and_the_rest_stays(tmp_path: Path, source: str, shown: str) -> None:
    (tmp_path / "team.md.j2").write_text("Ask the *search* team about {{ report.verdict.status }}.", encoding="utf-8")
    markdown = render(helpdesk_report(), "md", templates=with_template(tmp_path, EXTENDS + source))
    assert markdown.startswith(FAILED)
    assert shown in markdown
    assert "What got worse: " in markdown
    assert "<sub>Judge: openai gpt-x-mini" in markdown


def test_a_folder_without_a_report_template_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>another template engine's</p>", encoding="utf-8")
    assert render(helpdesk_report(), "md", templates=read_templates(tmp_path)) == render(helpdesk_report(), "md")


WAYS_TO_PRINT = (
    "{{ report.samples.worst[0].question }}",
    "{{ report.samples.worst[0].question | upper }}",
    "{{ report.samples.worst[0].question | clip(100000) }}",
    "{{ report.samples.worst | map(attribute='question') | join(' ') }}",
    "{{ report.samples.worst | map(attribute='question') | first }}",
    "{% set x %}{{ report.samples.worst[0].question }}{% endset %}{{ x }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(report.samples.worst[0].question) }}",
    "{{ report.samples.worst[0].question | code }}",
    "{{ report.samples.worst[0].question | link('https://github.com/acme/helpdesk/') }}",
    "{{ report.samples.worst[0].question | link(report.samples.worst[0].question) }}",
    "{% filter upper %}{{ report.samples.worst[0].question }}{% endfilter %}",
    "{% with text = report.samples.worst[0].question %}{{ text }}{% endwith %}",
    "{{ report.samples.worst[0].question | code | upper }}",
)


@pytest.mark.parametrize("source", WAYS_TO_PRINT)
def test_foreign_text_is_escaped_however_a_template_prints_it(tmp_path: Path, source: str) -> None:
    report = helpdesk_report(text=Text(question="x" + every_fragment[:500]))
    first, _, rest = render(report, "md", templates=with_template(tmp_path, source)).partition("\n\n")
    assert first == FAILED
    tokens = parser().parse(rest)
    children = [child for token in tokens for child in token.children or []]
    assert {token.type for token in tokens} == {"paragraph_open", "inline", "paragraph_close"}
    links = [child.attrs["href"] for child in children if child.type == "link_open"]
    assert links == (["https://github.com/acme/helpdesk/"] if "link('https" in source else [])
    assert "image" not in {child.type for child in children}
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(text_of(tokens))]


ESCAPES = (
    "{{ report.metrics }}",
    "{{ report }}",
    "{{ report.metrics | code }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ report.__class__ }}",
    "{{ report.samples.worst.count }}",
    "{{ report.keys() }}",
    "{{ report.title.format(report) }}",
    "{{ self.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ super.__self__ }}",
    "{% for x in report.metrics %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in report.metrics %}{{ loop._iterable }}{% endfor %}",
    "{% for x in report.metrics %}{{ loop.cycle(1, 2) }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m._func }}",
    "{% macro m() %}{% endmacro %}{{ m.__call__.__globals__ }}",
    "{{ report.metrics | map(attribute='__class__') | list }}",
    "{{ report.metrics | sort(attribute='__class__') }}",
    "{{ report | attr('__class__') }}",
    "{{ report | safe }}",
    "{{ report | tojson }}",
    "{{ report.title | replace('a', 'b') }}",
    "{{ report.title | center(1000000000) }}",
    "{{ report.title.ljust(1000000000) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ {'a': report} | length }}",
    "{{ range(10) }}",
    "{{ namespace() }}",
    "{{ lipsum() }}",
    "{{ 'a' ~ report.title }}",
    "{{ 'a' * 1000000000 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ '%s' % report.title }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '/etc/passwd' %}",
    "{% extends report.title %}",
    "{% include 'report.md.j2' %}",
    "{% autoescape false %}{{ report.title }}{% endautoescape %}",
    "{% include report.title %}",
    "{% call report() %}{% endcall %}",
    "{{ report() }}",
    "{{ ('a').upper() }}",
    "{{ undefined_name }}",
    "{{ report.titel }}",
    "{{ report.metrics[999].title }}",
    "{% if report.titel %}x{% endif %}",
    "{{ report.title",
    "{% block a %}",
    "{{ 1 / 0 }}",
    "{{ 'x' | int | float | first }}",
    "{{ report.metrics | first | upper | link }}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{{ " + "not " * 3000 + "1 }}",
    "{{ " + "9" * 5000 + " }}",
)


@pytest.mark.parametrize("source", ESCAPES, ids=lambda source: source[:60])
def test_a_template_reaches_nothing_but_the_report(tmp_path: Path, source: str) -> None:
    own = with_template(tmp_path, "line 1\n" + source)
    with pytest.raises(ConfigError) as caught:
        render(helpdesk_report(), "md", templates=own)
    assert caught.value.exit_code == 2
    assert caught.value.where is not None


DOUBLING = "".join(
    f"{{% macro a{number}() %}}{{{{ a{number - 1}() }}}}{{{{ a{number - 1}() }}}}{{% endmacro %}}"
    for number in range(1, 60)
)

EXHAUSTING = (
    "{% for a in report.metrics %}" * 9 + "{% endfor %}" * 9,
    "{% for a in report.metrics %}" * 9 + "x" + "{% endfor %}" * 9,
    "{% set x = report.verdict.reason %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60 + "{{ x }}",
    "{% set x = report.verdict.reason %}"
    + "{% set x = report.metrics | map(attribute='title') | join(x) %}" * 60
    + "{{ x }}",
    "{% set x = report.verdict.reason %}" + "{% set x = x | code %}" * 90 + "{{ x }}",
    "{% set x %}{% for a in report.verdict.reason %}{{ report.verdict.reason }}{% endfor %}{% endset %}"
    + "{{ x | upper | length }}" * 999,
    "{% set x = [report] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
    "{% macro a0() %}{% endmacro %}" + DOUBLING + "{{ a59() }}",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    '{% extends "report.md.j2" %}',
    "x" * 300_000,
    "".join(f"{{% include 'large{number}.md.j2' %}}" for number in range(9)),
    "{% for a in report.metrics %}" * 9 + "{% set b = report %}" * 200 + "{% endfor %}" * 9,
    "{% for a in report.metrics recursive %}{{ loop(report.metrics) }}{% endfor %}",
)


@pytest.mark.parametrize("source", EXHAUSTING, ids=range(len(EXHAUSTING)))
def test_a_template_can_not_run_away(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.report.sandbox.MAX_SECONDS", 0.5)
    for number in range(9):
        (tmp_path / f"large{number}.md.j2").write_text(f"{{# {'x' * 250_000} #}}", encoding="utf-8")

    def use() -> None:
        own = with_template(tmp_path, source)
        report = helpdesk_report()
        render_template(REPORT, template_values(report, DETAIL_LEVELS[0]), template_filters(DETAIL_LEVELS[0]), own)

    with pytest.raises(ConfigError):
        use()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ report.title + report.title }}", "the operator + is not allowed: print the values one after another"),
        ("{{ 'a' ~ report.title }}", "the operator ~ is not allowed: print the parts one after another"),
        ("{{ [report.title] | join }}", "a list can have only constants"),
        ("{{ (report.title, 1) | join }}", "a tuple can have only constants"),
        ("{{ {'a': 1} | length }}", "a dict is not allowed"),
        (
            "{% autoescape false %}{{ report.title }}{% endautoescape %}",
            "{% autoescape %} is not allowed: all values are escaped",
        ),
    ],
)
def test_an_error_names_the_syntax_and_what_to_do_instead(tmp_path: Path, source: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        render(helpdesk_report(), "md", templates=with_template(tmp_path, source))


def test_a_template_that_takes_too_long_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.report.sandbox.MAX_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="takes more than 0 seconds"):
        render(helpdesk_report(), "md", templates=with_template(tmp_path, "{{ report.title }}"))


@pytest.mark.parametrize(
    ("source", "names", "line"),
    [("{% block footer %}\n\n{{ report.titel }}\n{% endblock %}", "titel", 4), ("\n{% blok x %}", "blok", 3)],
    ids=["an unknown name", "a syntax error"],
)
def test_an_error_names_file_and_line(tmp_path: Path, source: str, names: str, line: int) -> None:
    own = with_template(tmp_path, EXTENDS + source)
    with pytest.raises(ConfigError, match=names) as caught:
        render(helpdesk_report(), "md", templates=own)
    assert caught.value.where == f"{tmp_path / 'report.md.j2'}:{line}"


def test_a_template_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "environ"
    secret.write_text("KEY=sk-very-secret", encoding="utf-8")
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "report.md.j2").symlink_to(secret)
    with pytest.raises(ConfigError, match="outside the") as caught:
        read_templates(folder)
    assert "sk-very-secret" not in str(caught.value)


def test_a_template_that_never_fits_gives_way_to_ours(tmp_path: Path) -> None:
    own = with_template(tmp_path, "long " * 20_000)
    assert render(helpdesk_report(), "md", templates=own) == render(helpdesk_report(), "md")


def test_a_template_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.md.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        render(helpdesk_report(), "md", templates=read_templates(tmp_path))


FORGERIES = (
    "## ✅ Nothing is shown to be worse.\n",
    "<!--",
    "\n===\n",
    "{% raw %}{{ {% endraw %}",
    "::set-output name=verdict::pass\n  ::error::x\ntext ##[error]boom\r::warning::y\x1b[2J\u202e",
    "{% set a = ':' %}{{ a }}:error::x",
)


@pytest.mark.parametrize("source", FORGERIES)
def test_no_template_takes_the_place_of_the_verdict_or_writes_a_command(tmp_path: Path, source: str) -> None:
    for text in (source, f"{EXTENDS}{{% block header %}}{source}{{% endblock %}}{{% block verdict %}}{{% endblock %}}"):
        markdown = render(helpdesk_report(), "md", templates=with_template(tmp_path, text))
        assert markdown.startswith(f"{FAILED}\n\n")
        [heading, shown, *_] = parser().parse(markdown)
        assert (heading.type, shown.content) == ("heading_open", FAILED.removeprefix("## "))
        assert not [line for line in re.split("[\r\n]", markdown) if line.lstrip().startswith("::") or "##[" in line]
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", markdown)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled templates."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    folder = Path(cache_from_source(template_cache.__file__)).parent
    folder.mkdir(parents=True)
    return folder


class CountingEnvironment(Environment):
    """Counts the templates that it compiles."""

    compiled = 0

    def _generate(self, *args: object, **kwargs: object) -> str:
        self.compiled += 1
        return super()._generate(*args, **kwargs)  # type: ignore[arg-type]


def compiled_for(source: str, expected: str) -> int:
    """How many templates a new process compiles to render `source`."""
    environment = CountingEnvironment(
        loader=DictLoader({"page.j2": source}), bytecode_cache=template_cache.TemplateCache("pages")
    )
    assert environment.get_template("page.j2").render(name="you") == expected
    return environment.compiled


def test_a_template_is_compiled_again_if_it_or_a_version_changed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_for("Hello {{ name }}", "Hello you") == 1
    assert compiled_for("Hello {{ name }}", "Hello you") == 0
    assert [path.suffix for path in cache.iterdir()] == [".jinja"]
    assert compiled_for("Bye {{ name }}", "Bye you") == 1
    monkeypatch.setattr(template_cache, "__version__", "99.0")
    assert compiled_for("Bye {{ name }}", "Bye you") == 1


def test_environments_that_escape_otherwise_share_no_compiled_template() -> None:
    page, text = html_environment(PACKAGE), text_environment(PACKAGE)
    assert isinstance(page.bytecode_cache, FileSystemBytecodeCache)
    assert isinstance(text.bytecode_cache, FileSystemBytecodeCache)
    assert page.bytecode_cache.pattern != text.bytecode_cache.pattern


@pytest.mark.parametrize("hindered_by", ["a setting", "a missing folder"])
def test_what_is_not_stored_is_compiled_each_time(
    cache: Path, monkeypatch: pytest.MonkeyPatch, hindered_by: str
) -> None:
    if hindered_by == "a setting":
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    else:
        cache.rmdir()
    for _ in range(2):
        assert compiled_for("Hello {{ name }}", "Hello you") == 1
    assert not cache.exists() or not list(cache.iterdir())


PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
TEMPLATES = re.findall(r"```jinja\n(.*?)```", PAGE, re.DOTALL)


def test_all_blocks_are_listed() -> None:
    blocks = re.findall(r"{% block (\w+) %}", read_template("report.md.j2"))
    listed = PAGE.partition("The blocks are")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == blocks


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_examples_can_be_rendered(tmp_path: Path, template: str) -> None:
    (tmp_path / "report.md.j2").write_text(template, encoding="utf-8")
    assert render(helpdesk_report(), "md", templates=read_templates(tmp_path)) != render(helpdesk_report(), "md")
