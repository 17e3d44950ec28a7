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


def test_a_template_is_compiled_again_if_it_or_its_environment_changed(package: Path) -> None:
    cache = package / "__pycache__"
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert compiled_for(package, "Hello {{ name }}", "Hello you") == 0
    assert [path.suffix for path in cache.iterdir()] == [".jinja"]
    assert compiled_for(package, "Bye {{ name }}", "Bye you") == 1
    (package / "environment.py").write_text("AUTOESCAPE = True\n", encoding="utf-8")
    assert compiled_for(package, "Bye {{ name }}", "Bye you") == 1


@pytest.mark.parametrize("hindered_by", ["a setting", "a missing folder"])
def test_what_can_not_be_stored_is_compiled_each_time(
    package: Path, monkeypatch: pytest.MonkeyPatch, hindered_by: str
) -> None:
    if hindered_by == "a setting":
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    else:
        (package / "__pycache__").rmdir()
    for _ in range(2):
        assert compiled_for(package, "Hello {{ name }}", "Hello you") == 1
    assert not list(package.glob("__pycache__/*"))
