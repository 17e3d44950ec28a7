"""A setting is described once: its help, its input and its row in the documentation say the same."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ragstone.cli import gate
from ragstone.cli.main import COMMANDS, cli
from ragstone.cli.options import FLAGS
from ragstone.github.inputs import INPUTS
from ragstone.settings.load import OPTIONS, option_of

ROOT = Path(__file__).parents[2]


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def help_text() -> str:
    done = CliRunner().invoke(gate.command, ["--help"], terminal_width=10_000, max_content_width=10_000)
    assert done.exit_code == 0
    return one_line(done.output)


@pytest.mark.parametrize(("flag", "key"), FLAGS.items(), ids=FLAGS)
def test_help_says_what_the_setting_says_with_its_default(flag: str, key: str, help_text: str) -> None:
    option = option_of(key)
    found = re.search(rf"--{flag.replace('_', '-')} (?:[A-Z_/]+ |\[[a-z|]+\] )?(.*?)(?= --[a-z])", help_text)
    assert found is not None
    assert found[1].startswith(option.sentence.replace("`", ""))
    default = option.default.replace("`", "")
    assert found[1].partition(" [default: ")[2] == (f"{default}]" if default else "")


def test_inputs_and_the_page_say_what_the_setting_says() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    for spec in INPUTS:
        if spec.key is None:
            continue
        assert spec.description.startswith(f"{option_of(spec.key).sentence}.")
        assert f"{option_of(spec.key).sentence}." in action
    for option in OPTIONS:
        item = next(line for line in page.splitlines() if re.match(rf"- .*`{option.env}`", line))
        default = option.default or ("`false`" if option.field.default is False else "")
        ending = f" Default: {default}." if default else "."
        assert item.endswith(f": {option.sentence}{'.' if default else ''}{ending}")


def test_help_has_one_default_for_an_option_and_no_half_sentence() -> None:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for one in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
            lines = one.get_help(click.Context(one, terminal_width=80)).splitlines()
            assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage")], name
            for parameter in one.params:
                record = parameter.get_help_record(click.Context(one)) or ("", "")
                assert record[1].count("[default:") < 2, (name, parameter.name)
                assert "…" not in (parameter.metavar or ""), (name, parameter.name)
