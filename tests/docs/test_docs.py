"""Every page of the documentation: its blocks parse, its commands exist, its links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest
import yaml

from ragstone import errors
from ragstone.cli.main import COMMANDS, cli
from ragstone.gate.accepted import parse_accepted
from ragstone.gate.policy import Policy
from ragstone.gate.policy_file import validate_policy
from ragstone.gate.policy_table import GateRules, SystemRules
from ragstone.golden.aliases import FIELDS
from ragstone.golden.load import load_golden_set
from ragstone.judge.providers import Provider
from ragstone.metrics.registry import METRICS
from ragstone.settings.load import load_settings
from ragstone.settings.settings import GateSettings
from ragstone.settings.source import Source

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "bench/*.md")
    for path in ROOT.glob(pattern)
    if ".venv" not in path.parts
)
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence) *$", re.M | re.S
)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?) *#*$", re.M)
_SETTINGS_TABLES = {"golden", "system", "judge", "run"}
_POLICY_TABLES = {"metrics", "slices", "must_pass", "labels", "monitor", "drift"}
_POLICY_GATE_KEYS = set(GateRules.model_fields) - set(GateSettings.model_fields)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line, language and text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(language: str | None = None) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            words = match["info"].split()
            name = words[0].lower() if words else ""
            if language is None or name == language:
                body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.M)
                yield Block(page, text.count("\n", 0, match.start()) + 1, name, body)


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def tracked_files() -> tuple[str, ...]:
    """What git knows; nothing outside a checkout."""
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return tuple(found.stdout.splitlines())


def slugs(page: Path) -> set[str]:
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        name, number = slug, 0
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `ragstone …` line of the documentation, with its place."""
    for block in blocks():
        if block.language in {"console", "sh", "bash", "shell"}:
            for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                bare = re.sub(r"\s+#.*$", "", line.strip().removeprefix("$ "))
                if bare.startswith("ragstone "):
                    yield str(block), bare
    for page in PAGES:
        for code in _INLINE.findall(prose(page)):
            if code.startswith("ragstone ") and not code.startswith("ragstone @"):
                yield page.relative_to(ROOT).as_posix(), code


@pytest.mark.parametrize("block", list(blocks("toml")), ids=str)
def test_a_toml_block_is_what_it_claims_to_be(block: Block, tmp_path: Path) -> None:
    document = tomllib.loads(block.text)
    if set(document) <= {"tool", "project", "build-system"}:
        settings = document.get("tool", {}).get("ragstone")
        if settings is not None:
            (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
            load_settings(directory=tmp_path, environ={})
        return
    if block.text.startswith("# src/ragstone/judge/providers/"):
        assert msgspec.convert({"name": "example", **document}, Provider).name == "example"
        return
    if set(document) == {"accepted"}:
        assert parse_accepted(block.text, str(block))
        return
    own = [table for table in document.get("metrics", {}).values() if {"rubric", "python"} & set(table)]
    if set(document) == {"metrics"} and own:
        (tmp_path / "ragstone.toml").write_text(block.text, encoding="utf-8")
        load_settings(directory=tmp_path, environ={})
        return
    gate_keys = set(document.get("gate", {}))
    system_keys = set(document.get("system", {}))
    if _POLICY_TABLES & set(document) or gate_keys & _POLICY_GATE_KEYS or system_keys & set(SystemRules.model_fields):
        policy = Policy.of(validate_policy(document, Source()))  # without the labels, a file of the reader's
        if block.page.name == "thresholds.md":
            policy.require_known_metrics()
        return
    assert set(document) <= _SETTINGS_TABLES | {"gate"}, f"{block}: neither settings nor a policy"
    (tmp_path / "ragstone.toml").write_text(block.text, encoding="utf-8")
    load_settings(directory=tmp_path, environ={})


@pytest.mark.parametrize("block", list(blocks("json")) + list(blocks("jsonl")), ids=str)
def test_a_json_block_is_json_and_golden_samples_load(block: Block, tmp_path: Path) -> None:
    try:
        values = [json.loads(block.text)]
    except json.JSONDecodeError:
        values = [json.loads(line) for line in block.text.splitlines() if line.strip()]
    labels = {"reference", "answerable", "relevant_ids"}
    if not all(isinstance(value, dict) and "id" in value for value in values):
        return
    questions = all("question" in value and labels & value.keys() for value in values)
    conversations = all("turns" in value and "history" not in value for value in values)
    if questions or conversations:
        lines = "".join(json.dumps(value) + "\n" for value in values)
        (tmp_path / "golden.jsonl").write_text(lines, encoding="utf-8")
        golden = load_golden_set("golden.jsonl", root=tmp_path)
        assert len(golden) == sum(len(value.get("turns", [value])) for value in values)
        assert golden.mappings[0].ignored == ()


def test_yaml_blocks_are_yaml() -> None:
    for block in (*blocks("yaml"), *blocks("yml")):
        assert yaml.safe_load(block.text) is not None, str(block)


@pytest.mark.parametrize("block", list(blocks("python")), ids=str)
def test_a_python_block_is_python(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize(("place", "line"), sorted(set(command_lines())))
def test_a_command_line_names_what_exists(place: str, line: str) -> None:
    line = re.split(r"\s(?:\||>|&&|2>)\s?", line)[0]
    name, *arguments = shlex.split(line.removeprefix("ragstone "))
    if name.startswith("-"):
        assert name in {"--help", "--version", "-h"}
        return
    assert name in COMMANDS, f"{place}: ragstone {name} is no command"
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    parameters = list(command.params)
    if isinstance(command, click.Group) and arguments:
        named = arguments[0] if arguments[0] in command.commands else getattr(command, "default", "")
        parameters = command.commands[named].params if named else parameters
    options = {"--help", "-h"}
    for parameter in parameters:
        options |= {*parameter.opts, *parameter.secondary_opts}
    for argument in arguments:
        if argument.startswith("-") and argument != "-":
            assert argument.partition("=")[0] in options, f"{place}: ragstone {name} has no option {argument}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    tracked = tracked_files()
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target} leads nowhere"
        if tracked and path:
            name = linked.relative_to(ROOT).as_posix()
            assert any(file == name or file.startswith(f"{name}/") for file in tracked), f"{target} is not tracked"
        if anchor and linked.suffix == ".md":
            assert anchor in slugs(linked), f"{page.name}: {target} names no heading"


def test_every_exit_code_is_described() -> None:
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    codes |= {getattr(kind, "exit_code", 0) for kind in vars(errors).values()}
    assert {code for code in codes if not re.search(rf"^\| {code}[ ,|]", page, re.M)} == set()


def test_every_metric_is_described() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    families = {re.sub(r"@.*", "@", name) for name in METRICS}
    assert {name for name in families if name not in page} == set()


def test_every_alias_in_the_documentation_is_one() -> None:
    page = (ROOT / "docs/golden-sets.md").read_text(encoding="utf-8")
    section = page.split("## Aliases")[1].split("\n## ")[0]
    for field, names in re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.M):
        known = {*FIELDS[field].strong, *FIELDS[field].weak}
        if field == "answerable":
            known |= set(FIELDS["unanswerable"].strong)
        assert set(_INLINE.findall(names)) <= known
