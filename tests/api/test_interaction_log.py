"""The log of an application: whole lines from threads, processes and forks, and never an exception."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone import interaction_log, log_interaction


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interaction_log, "_told", False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def test_a_line_has_what_was_given_and_an_id_and_the_time(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    number = log_interaction(
        "How long?",
        "30 days.",
        sources=["Shoes: 30 days."],
        latency_ms=812.5,
        user_id=7,
        route="returns",
        timestamp=datetime(2026, 11, 22, 10, 0, tzinfo=UTC),
        path=log,
        model="m-2",
    )
    assert lines(log) == [
        {
            "id": number,
            "timestamp": "2026-11-22T10:00:00.000+00:00",
            "query": "How long?",
            "answer": "30 days.",
            "sources": ["Shoes: 30 days."],
            "latency_ms": 812.5,
            "user_id": 7,
            "route": "returns",
            "model": "m-2",
        }
    ]
    assert log.stat().st_mode & 0o077 == 0


def test_the_log_is_that_of_the_environment_or_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSTONE_LOG", str(tmp_path / "a.jsonl"))
    assert log_interaction("q", "a", timestamp="2026-11-22T10:00:00Z")
    assert lines(tmp_path / "a.jsonl")[0]["timestamp"] == "2026-11-22T10:00:00.000+00:00"
    monkeypatch.delenv("RAGSTONE_LOG")
    monkeypatch.chdir(tmp_path)
    assert log_interaction("q", "a")
    assert len(lines(tmp_path / "ragstone-interactions.jsonl")) == 1


class Document:
    page_content = "Shoes: 30 days."
    metadata = {"source": "returns.md", "when": datetime(2026, 1, 1, tzinfo=UTC)}  # noqa: RUF012


class IterableDocument(Document):
    def __iter__(self) -> Iterator[tuple[str, object]]:
        """Its fields, as a model of pydantic has it."""
        yield from {"page_content": self.page_content}.items()


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_sources_may_be_the_objects_of_a_framework(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log_interaction("q", "a", sources=(one for one in [Document(), {"text": "x", "score": float("nan")}]), path=log)
    log_interaction("q", "a", sources=IterableDocument(), path=log)
    assert [one["text"] for one in lines(log)[1]["sources"]] == ["Shoes: 30 days."]
    assert lines(log)[0]["sources"] == [
        {"text": "Shoes: 30 days.", "metadata": {"source": "returns.md", "when": "2026-01-01 00:00:00+00:00"}},
        {"text": "x", "score": None},
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("returns.md", ["returns.md"]),
        ({"id": "d", "text": "t"}, [{"id": "d", "text": "t"}]),
        (5, ["5"]),
        (("a", "b"), ["a", "b"]),
        ([], []),
        (None, None),
    ],
)
def test_one_source_needs_no_list_and_none_is_not_an_empty_one(given: object, kept: object, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert log_interaction("q", "a", sources=given, path=log)
    assert lines(log)[0].get("sources") == kept


def endless() -> dict[str, object]:
    found: dict[str, object] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize(
    "given",
    [
        {"user_id": Rude()},
        {"timestamp": 1e300},
        {"timestamp": "yesterday"},
        {"path": "/proc/nothing/here.jsonl"},
        {"path": "a\0b"},
        {"path": 5},
        {"answer": "x" * 10_000_001},
    ],
)
def test_nothing_raises_and_the_first_problem_is_told_once(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert log_interaction(**{"query": "q", "answer": "a", **given}) == ""
    assert log_interaction(**{"query": "q", "answer": "a", **given}) == ""
    assert capsys.readouterr().err.count("ragstone: an interaction was not logged") == 1


def test_values_that_json_does_not_have_become_text(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert log_interaction("\ud800", b"bytes", error=ValueError("bad"), path=log, latency_ms=float("inf"), x=endless())  # type: ignore[arg-type]
    (found,) = lines(log)
    assert found["query"] == "\ud800"
    assert found["answer"] == "b'bytes'"
    assert found["error"] == "ValueError: bad"
    assert found["latency_ms"] is None


def test_a_closed_standard_error_is_no_reason_to_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert log_interaction("q", "a", path=tmp_path) == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_without_a_reader_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert log_interaction("q", "a", path=tmp_path / "pipe") == ""


def test_a_line_that_was_cut_short_spoils_only_itself(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log_interaction("one", "a", path=log)
    with log.open("ab") as file:
        file.write(b'{"id":"cut","que')
    log_interaction("two", "a", path=log)
    found = log.read_text().splitlines()
    assert [json.loads(found[0])["query"], found[1], json.loads(found[2])["query"]] == [
        "one",
        '{"id":"cut","que',
        "two",
    ]


@pytest.mark.usefixtures("processes")
def test_threads_and_forks_never_mix_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"

    def many(name: str) -> None:
        for number in range(100):
            log_interaction(f"{name}-{number}", "x" * 20_000, path=log)

    def threads(name: str) -> None:
        running = [threading.Thread(target=many, args=(f"{name}-{n}",)) for n in range(3)]
        for one in running:
            one.start()
        for one in running:
            one.join()

    code = textwrap.dedent(
        f"""
        import os, threading, ragstone
        def many(name):
            for n in range(100):
                ragstone.log_interaction(f"{{name}}-{{n}}", "x" * 20000, path={str(log)!r})
        child = os.fork()
        name = "child" if child == 0 else "parent"
        running = [threading.Thread(target=many, args=(f"{{name}}-{{k}}",)) for k in range(3)]
        [one.start() for one in running]
        [one.join() for one in running]
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    threads("here")
    assert other.wait() == 0
    queries = {one["query"] for one in lines(log)}
    assert queries == {f"{who}-{k}-{n}" for who in ("here", "parent", "child") for k in range(3) for n in range(100)}
    assert len(lines(log)) == 900


@pytest.mark.usefixtures("processes")
def test_a_killed_process_loses_at_most_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    code = (
        "import ragstone, sys\n"
        f"for n in range(10**9):\n    ragstone.log_interaction(str(n), 'x' * 5000, path={str(log)!r})\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 200:
            break
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    said = int(rest[-1]) if rest and rest[-1].isdigit() else 200
    log_interaction("after", "a", path=log)
    whole = []
    for line in log.read_text().splitlines():
        try:
            whole.append(json.loads(line)["query"])
        except ValueError:
            continue
    assert whole[-1] == "after"
    assert whole[: said + 1] == [str(n) for n in range(said + 1)] or whole[:said] == [str(n) for n in range(said)]


@pytest.mark.usefixtures("processes")
def test_logging_loads_nothing_else_of_ragstone_and_no_dependency() -> None:
    code = (
        "import ragstone, sys; before = set(sys.modules); ragstone.log_interaction;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)));"
        "print(*sorted(m for m in sys.modules if m.startswith('ragstone')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(ragstone.__file__).parents[1])},
    )
    others, ours = done.stdout.splitlines()
    assert others.split() == ["__main__", "ragstone"] or others.split() == ["ragstone"]
    assert ours.split() == ["ragstone", "ragstone._version", "ragstone.interaction_log"]
