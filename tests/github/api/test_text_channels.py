"""Outputs, workflow commands and the summary: what is written into files and logs that GitHub acts upon."""

from __future__ import annotations

import contextlib
import io
import itertools
from functools import partial
from operator import ne
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.github.api.commands import (
    MAX_MESSAGE_CHARACTERS,
    MAX_SUMMARY_BYTES,
    Annotation,
    Level,
    commands_stopped,
    format_output,
    mask,
    print_annotations,
    render_annotation,
    write_outputs,
    write_summary,
)
from ragstone.github.outputs import OUTPUTS


def parse_outputs(text: str) -> dict[str, str]:
    """As the runner reads the file: `name=value`, or `name<<delimiter` up to a line that is the delimiter."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and (equals < 0 or heredoc < equals):
            name, delimiter = line.split("<<", 1)
            found[name] = "\n".join(itertools.takewhile(partial(ne, delimiter), lines))
        else:
            name, value = line.split("=", 1)
            found[name] = value
    return found


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from([*OUTPUTS]), st.text(), max_size=4))
def test_any_value_comes_back_whole_and_makes_no_other_output(values: dict[str, str]) -> None:
    values = {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in values.items()}
    assert parse_outputs("".join(format_output(name, value) for name, value in values.items())) == values


def test_no_name_or_delimiter_can_forge_another_output() -> None:
    tokens = iter(["one", "two"])
    text = format_output("verdict", "pass\nragstone_one\npassed=true", token=lambda: next(tokens))
    assert text.startswith("verdict<<ragstone_two\n")
    assert parse_outputs(text) == {"verdict": "pass\nragstone_one\npassed=true"}
    with pytest.raises(ValueError, match="not a valid output name"):
        format_output("verdict=pass\nx", "1")


def test_outputs_are_appended_in_one_encoding(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("before=1\n", encoding="utf-8")
    write_outputs(path, {"passed": "\ud800\r\n", "coverage": "1"})
    assert parse_outputs(path.read_text(encoding="utf-8")) == {"before": "1", "passed": "?\n", "coverage": "1"}


def test_an_annotation_is_one_line_up_to_a_size_whatever_it_says() -> None:
    hostile = Annotation(Level.ERROR, "50% of\r\nthem ::set-output name=x::y", "a,b:c", "golden/a,b.jsonl", 12)
    assert render_annotation(hostile) == (
        "::error file=golden/a%2Cb.jsonl,line=12,title=a%2Cb%3Ac::50%25 of%0Athem ::set-output name=x::y"
    )
    for length in (MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_CHARACTERS + 1):
        shown = render_annotation(Annotation(Level.ERROR, "x" * length)).removeprefix("::error::")
        assert (len(shown), shown.endswith("…")) == (MAX_MESSAGE_CHARACTERS, length > MAX_MESSAGE_CHARACTERS)


@pytest.mark.attack(by="text", tries="forge an output or an annotation", stopped_by="random delimiters, escaping")
@settings(max_examples=50, deadline=None)
@given(st.text(), st.text(), st.text())
def test_no_text_makes_a_second_command(message: str, title: str, file: str) -> None:
    rendered = render_annotation(Annotation(Level.WARNING, message, title, file, 3))
    assert not any(line.lstrip().startswith("::") for line in rendered.splitlines()[1:])
    assert not set("\n\r\x1b") & set(rendered)
    properties = rendered.removeprefix("::warning ").partition("::")[0]
    assert properties.count(",") <= 2


def test_at_most_ten_of_a_level_are_printed() -> None:
    out = io.StringIO()
    print_annotations([Annotation(level, f"{level} {n}") for n in range(11) for level in Level], out)
    assert len(out.getvalue().splitlines()) == 30
    assert "10" not in out.getvalue()


def acting(log: str) -> list[str]:
    """The lines of a log that the runner would act upon: outside of stop-commands, `::x` or `##[x]`."""
    acted, stopped = [], None
    for line in log.split("\n"):
        if stopped is not None:
            if line.strip() == f"::{stopped}::":
                stopped = None
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::") or "##[" in line:
            acted.append(line)
    assert stopped is None
    return acted


@pytest.mark.parametrize(
    "hostile",
    [
        "::set-output name=verdict::pass",
        "text ##[error]boom",
        "::add-mask::a\n::ragstone-::\n::error::x",
        "no line end ::warning::x",
        "::stop-commands::abc\n",
    ],
)
def test_foreign_text_never_acts(hostile: str) -> None:
    out = io.StringIO()
    with commands_stopped(out) as write:
        write(hostile)
    out.write("after\n")
    assert acting(out.getvalue()) == []
    assert out.getvalue().endswith("::\nafter\n")


def test_commands_act_again_even_after_an_error() -> None:
    out = io.StringIO()
    with contextlib.suppress(RuntimeError), commands_stopped(out) as write:
        write("half a line")
        raise RuntimeError
    assert acting(out.getvalue() + "::error::mine") == ["::error::mine"]


def test_a_mask_covers_each_line() -> None:
    out = io.StringIO()
    mask("one\ntwo%\n", out)
    assert out.getvalue() == "::add-mask::one\n::add-mask::two%25\n"


def test_the_summary_takes_a_text_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    room = MAX_SUMMARY_BYTES
    assert not write_summary(path, "x" * room)
    assert not write_summary(path, "\u00e9" * (room // 2))
    assert write_summary(path, "short")
    assert path.read_text(encoding="utf-8") == "short\n"
    left = room - path.stat().st_size
    assert not write_summary(path, "x" * (left - 1))
    assert write_summary(path, "y" * (left - 2))
    assert path.stat().st_size == room
    assert path.read_text(encoding="utf-8").startswith("short\n\nyyy")
    assert write_summary(None, "hello")
