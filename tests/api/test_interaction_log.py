"""The log of an application: whole lines from threads, processes and forks, and never an exception."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone import interaction_log, log_interaction
from tests.cli.project import read_rows


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interaction_log, "_has_warned", False)


def test_a_line_has_what_was_given_and_an_id_and_the_time(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    said: dict[str, Any] = {"sources": ["Shoes: 30 days."], "latency_ms": 812.5, "user_id": 7}
    when = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
    number = log_interaction("How long?", "30 days.", **said, timestamp=when, path=log, model="m-2")
    first = {"id": number, "timestamp": "2026-11-22T10:00:00.000+00:00", "query": "How long?", "answer": "30 days."}
    assert read_rows(log) == [{**first, **said, "model": "m-2"}]
    assert log.stat().st_mode & 0o077 == 0


def test_the_log_is_that_of_the_environment_or_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSTONE_LOG", str(tmp_path / "a.jsonl"))
    assert log_interaction("q", "a", timestamp="2026-11-22T10:00:00Z")
    assert read_rows(tmp_path / "a.jsonl")[0]["timestamp"] == "2026-11-22T10:00:00.000+00:00"
    monkeypatch.delenv("RAGSTONE_LOG")
    monkeypatch.chdir(tmp_path)
    assert log_interaction("q", "a")
    assert len(read_rows(tmp_path / "ragstone-interactions.jsonl")) == 1


class Document:
    page_content = "Shoes: 30 days."
    metadata = {"source": "returns.md", "when": datetime(2026, 1, 1, tzinfo=UTC)}  # noqa: RUF012

    def __iter__(self) -> Iterator[tuple[str, object]]:
        """Its fields, as a model of pydantic has it."""
        yield from {"page_content": self.page_content}.items()


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def endless() -> dict[str, object]:
    found: dict[str, object] = {}
    found["self"] = found
    return found


KEPT = {"text": "Shoes: 30 days.", "metadata": {"source": "returns.md", "when": "2026-01-01 00:00:00+00:00"}}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("returns.md", ["returns.md"]),
        (5, ["5"]),
        ([], []),
        (None, None),
        (iter([Document(), {"text": "x", "score": float("nan")}]), [KEPT, {"text": "x", "score": None}]),
    ],
)
def test_sources_may_be_one_or_several_of_any_kind_and_none_is_not_an_empty_list(
    given: object, kept: object, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    assert log_interaction("q", "a", sources=given, path=log)
    assert read_rows(log)[0].get("sources") == kept


def test_values_that_json_has_not_become_text_and_a_line_that_was_cut_spoils_only_itself(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"id":"cut","que')
    odd: Any = {"query": "\ud800", "answer": b"bytes", "error": ValueError("bad"), "latency_ms": float("inf")}
    assert log_interaction(**odd, path=log, x=endless())
    cut, line = log.read_text().splitlines()
    assert cut == '{"id":"cut","que'
    found = json.loads(line)
    assert [found[name] for name in odd] == ["\ud800", "b'bytes'", "ValueError: bad", None]


@pytest.mark.parametrize(
    "given",
    [
        *({"path": path} for path in ("/proc/nothing/here.jsonl", ".", "pipe", "a\0b", 5)),
        *({"timestamp": time} for time in (1e300, "yesterday")),
        {"user_id": Rude()},
        {"answer": "x" * 10_000_001},
    ],
    ids=["no folder", "a folder", "a pipe", "a null", "no path", "late", "no time", "rude", "too long"],
)
def test_nothing_raises_or_waits_and_the_first_problem_is_told_once(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for _ in range(2):
        assert log_interaction(**{"query": "q", "answer": "a", **given}) == ""
    assert capsys.readouterr().err.count("ragstone: an interaction was not logged") == 1
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(interaction_log, "_has_warned", False)
    assert log_interaction(**{"query": "q", "answer": "a", **given}) == ""


MANY = """
import os, threading, ragstone
def many(name):
    for number in range(100):
        ragstone.log_interaction(f"{name}-{number}", "x" * 20000, path=PATH)
child = os.fork()
name = "child" if child == 0 else "parent"
running = [threading.Thread(target=many, args=(f"{name}-{number}",)) for number in range(3)]
[one.start() for one in running]
[one.join() for one in running]
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.usefixtures("processes")
def test_threads_and_forks_never_mix_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    subprocess.run([sys.executable, "-c", f"PATH = {str(log)!r}\n{MANY}"], check=True)
    names = [f"{who}-{thread}-{number}" for who in ("parent", "child") for thread in range(3) for number in range(100)]
    # A writer that sees the half of another's line begins a new one, which leaves an empty line.
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line]
    assert sorted(line["query"] for line in lines) == sorted(names)


ON_AND_ON = """
import ragstone
for n in range(10**9):
    ragstone.log_interaction(str(n), "x" * 5000, path=PATH)
    print(n, flush=True)
"""


@pytest.mark.usefixtures("processes")
def test_a_killed_process_loses_at_most_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    code = f"PATH = {str(log)!r}\n{ON_AND_ON}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 200:
            pass
        process.kill()
    log_interaction("after", "a", path=log)
    *before, last = log.read_text().splitlines()
    assert json.loads(last)["query"] == "after"
    assert [json.loads(line)["query"] for line in before[:201]] == [str(n) for n in range(201)]


@pytest.mark.usefixtures("processes")
def test_logging_loads_nothing_else_of_ragstone_and_no_dependency() -> None:
    code = (
        "import ragstone, sys; before = set(sys.modules); ragstone.log_interaction;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)));"
        "print(*sorted(m for m in sys.modules if m.startswith('ragstone')))"
    )
    environ = {"PYTHONPATH": str(Path(ragstone.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=environ)
    others, ours = done.stdout.splitlines()
    assert others.split() == ["__main__", "ragstone"] or others.split() == ["ragstone"]
    assert ours.split() == ["ragstone", "ragstone._version", "ragstone.interaction_log"]
