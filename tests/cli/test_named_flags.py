"""Flags in messages, help and templates are flags that a command has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

import ragstone
from ragstone.cli.main import cli

SOURCE = Path(ragstone.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
CALL = re.compile(r"ragstone ([a-z]+)([^`\"\n|;]*)")

OF_OTHER_TOOLS = {
    "github/container/user_environment.py": "--noprofile --norc --python --requirement --seed",
    "judge/llm/prompts/entities.toml": "--now",
    "judge/llm/prompts/statements.toml": "--log",
    "pipeline/base_checkout.py": "--detach --end-of-options --first-parent --full-tree --max-count --porcelain "
    "--quiet --show-prefix --show-toplevel --untracked-files --verify",
    "pipeline/git.py": "--is-ancestor --is-shallow-repository --max-count --verify",
    "pipeline/init/names.toml": "--bind --port",
    "pipeline/invocation.py": "--porcelain --show-toplevel --untracked-files",
    "report/reproduce.py": "--dir --name",
    "system/command_line.py": "--flag",
}
"""Flags of git, docker and others, and in examples of a user's text, by the file that has them."""


def flags_by_command() -> dict[str, set[str]]:
    """The flags of each command, with those of its sub-commands."""
    context = click.Context(cli)
    flags = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        subcommands = list(command.commands.values()) if isinstance(command, click.Group) else []
        flags[name] = {"--help"}
        for each in (command, *subcommands):
            for parameter in each.params:
                flags[name].update(parameter.opts)
    return flags


FLAGS = flags_by_command()


def texts(path: Path) -> Iterator[str]:
    """The string literals of a module, or the whole of another file."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield content
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_flags() -> dict[str, set[str]]:
    """The flags that no command has, by file; of a call such as ``ragstone plan --drop 0.1``, that command has not."""
    every = {"--version"}.union(*FLAGS.values())
    unknown: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in (".py", ".j2", ".toml"):
            continue
        name = path.relative_to(SOURCE).as_posix()
        for text in texts(path):
            flags = set(FLAG.findall(text)) - every
            for command, arguments in CALL.findall(text):
                flags |= set(FLAG.findall(arguments)) - FLAGS.get(command, every)
            if flags:
                unknown.setdefault(name, set()).update(flags)
    return unknown


def test_every_flag_that_is_named_is_one_of_a_command_or_of_a_known_tool() -> None:
    assert named_flags() == {name: set(flags.split()) for name, flags in OF_OTHER_TOOLS.items()}
