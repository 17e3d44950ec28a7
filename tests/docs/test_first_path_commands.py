"""Each command that the first path prints, run as printed, in its order, from an empty folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.cli.project import ragstone, write_rows
from tests.docs.test_first_path import PATH

SET_UP = ("git clone https://github.com/ragstone/ragstone", "cd your-repository", "pip install ../ragstone")
"""What the test environment has done already."""

SYSTEM = """
FACTS = {facts}
ANSWERS = {answers}

def answer(question):
    for name in FACTS:
        if name in question:
            return {{"answer": ANSWERS[name], "contexts": [{{"id": name, "text": FACTS[name]}}]}}
    return {{"answer": "", "contexts": []}}
"""
FACTS = {
    f"Harbour {number:02}": f"Harbour {number:02} was opened in {1800 + number} by the town." for number in range(30)
}


def write_system(project: Path, answers: dict[str, str]) -> None:
    text = SYSTEM.format(facts=FACTS, answers=answers)
    (project / "my_package" / "rag.py").write_text(text, encoding="utf-8")


def connect(project: Path) -> None:
    """Do what the quickstart tells: name a function, and write questions."""
    (project / "my_package").mkdir()
    write_system(project, FACTS)
    rows = ({"question": f"When was {name} opened?", "reference": fact} for name, fact in FACTS.items())
    write_rows(project / "golden" / "golden.jsonl", rows)


def lose(project: Path) -> None:
    """Invent a third of the answers, and compare them with the baseline."""
    invented = {name: f"{name} burnt down in {1900 + number}." for number, name in enumerate(list(FACTS)[::3])}
    write_system(project, FACTS | invented)
    ragstone(["gate", "--baseline", "baseline"], project, exit_code=1)


BEFORE: dict[str, Callable[[Path], None]] = {"ragstone check": connect, "ragstone accept": lose}
"""What a reader has done before a command, by the start of the command."""


def test_each_command_of_the_first_path_does_what_it_says(tmp_path: Path) -> None:
    blocks = [block for page in PATH for block in re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.S)]
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert tuple(commands[: len(SET_UP)]) == SET_UP
    for command in commands[len(SET_UP) :]:
        for start, prepare in BEFORE.items():
            if command.startswith(start):
                prepare(tmp_path)
        name, *arguments = shlex.split(command)
        assert name == "ragstone", command
        ragstone(arguments, tmp_path, exit_code=0)
    assert (tmp_path / "report.html").is_file()
    assert "faithfulness" in (tmp_path / "accepted.toml").read_text(encoding="utf-8")
