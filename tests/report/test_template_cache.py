"""Compiled templates: where they are stored, and when they are compiled again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from ragstone.report.template_cache import TemplateCache


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package called `pages`, with the module that makes its environment."""
    folder = tmp_path / "pages"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "environment.py").write_text("AUTOESCAPE = False\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return folder


class CountingEnvironment(Environment):
    """Counts the templates that it compiles."""

    compiled = 0

    def _generate(self, *args: object, **kwargs: object) -> str:
        self.compiled += 1
        return super()._generate(*args, **kwargs)  # type: ignore[arg-type]


def compiled_for(package: Path, source: str, expected: str) -> int:
    """How many templates a new process compiles to render `source`."""
    environment = CountingEnvironment(
        loader=DictLoader({"page.j2": source}),
        bytecode_cache=TemplateCache("pages", str(package / "environment.py")),
    )
    assert environment.get_template("page.j2").render(name="you") == expected
    return environment.compiled


def test_a_template_is_compiled_once(package: Path) -> None:
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 0
    assert [path.suffix for path in (package / "__pycache__").iterdir()] == [".jinja"]


def test_a_changed_template_is_compiled_again(package: Path) -> None:
    compiled_for(package, "Hello {{ name }}", "Hello you")
    assert compiled_for(package, "Bye {{ name }}", "Bye you") == 1


def test_what_another_environment_compiled_is_compiled_again(package: Path) -> None:
    compiled_for(package, "Hello {{ name }}", "Hello you")
    (package / "environment.py").write_text("AUTOESCAPE = True\n", encoding="utf-8")
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1


def test_nothing_is_written_where_python_writes_no_bytecode(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert not list((package / "__pycache__").iterdir())


def test_a_folder_that_cannot_be_written_to_stops_nothing(package: Path) -> None:
    (package / "__pycache__").rmdir()
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
