"""Sealed questions: whatever happens, a run leaves nothing of them but means."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import signal
import sqlite3
import subprocess
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragstone.rounds import sealed as sealed_round
from tests.commands.project import command, environment, golden_lines, make_project, ragstone
from tests.judge.conftest import FakeLlm, Loop, Seen

CANARY = "zqcanary"
N = 24

SYSTEM = f"""
import os, sys, time
from pathlib import Path
import houses_facts

def answer(question):
    sealed = "{CANARY}" in question
    if sealed:
        print("asked", question, flush=True)
        print("asked", question, file=sys.stderr, flush=True)
        mode = os.environ.get("MODE", "")
        if mode == "raise":
            raise ValueError(f"can't answer {{question}}")
        if mode == "die":
            os._exit(3)
        if mode == "hang":
            Path(os.environ["MARK"]).touch()
            time.sleep(60)
    fact = houses_facts.FACTS[question.replace("{CANARY}", "house")]
    if sealed:
        fact += " It is called {CANARY} by its owner."
    return {{"answer": fact, "contexts": [{{"id": "{CANARY}" if sealed else "d", "text": fact + " It has a door."}}]}}
"""

FACTS = """
FACTS = {f"What is the colour of house number {i}?": f"House number {i} is painted {c}."
         for i, c in ((i, ["red", "green", "blue", "white", "yellow"][i % 5]) for i in range(1000))}
"""


def sealed_lines(n: int = N, first: int = 500) -> str:
    rows = map(json.loads, golden_lines(first + n).splitlines()[first:])
    return "".join(
        json.dumps(
            {
                **row,
                "id": f"{CANARY}-{number}",
                "question": row["question"].replace("house", CANARY),
                "reference": f"{row['reference']} It is called {CANARY} by its owner.",
                "reference_contexts": [f"{row['reference']} {CANARY}"],
                "tags": [f"{CANARY}tag"],
                "group": f"{CANARY}group{number // 2}",
                "provenance": f"{CANARY} 1.0",
                "note": CANARY,
            }
        )
        + "\n"
        for number, row in enumerate(rows)
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = make_project(tmp_path / "app", n=30, system=SYSTEM)
    (found / "houses_facts.py").write_text(FACTS, encoding="utf-8")
    (found / "thresholds.toml").write_text(
        "[metrics.faithfulness]\nmin = 0.5\nmax_drop = 0.05\n[system]\nmax_broken = 1.0\n", encoding="utf-8"
    )
    (tmp_path / "vault").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "vault" / "questions.jsonl").write_text(sealed_lines(), encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Start"]):
        subprocess.run([*git, *arguments], cwd=found, check=True)
    return found


def variables(project: Path, **more: str) -> dict[str, str]:
    return {
        "RAGSTONE_SEALED": str(project.parent / "vault" / "questions.jsonl"),
        "RAGSTONE_SYSTEM_ENV": "MODE MARK",
        "TMPDIR": str(project.parent / "tmp"),
        **more,
    }


def gate(project: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = ["gate", "--sealed", "--history", "history.jsonl", *arguments]
    return ragstone(given, project, env=variables(project, **more))


def unpacked(body: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """`body`, and what is packed in it."""
    yield name, body
    if body[:4] == b"PK\3\4":
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            for member in archive.namelist():
                yield from unpacked(archive.read(member), f"{name}/{member}")
    for unpack in (gzip.decompress, zlib.decompress):
        with suppress(OSError, zlib.error, EOFError):
            inner = unpack(body)
            yield from unpacked(inner, f"{name}>") if inner else ()


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        own = {"vault", ".git"} & {*path.parts} or path.suffix in (".py", ".pyc")
        if path.is_file() and not own:
            yield from unpacked(path.read_bytes(), str(path))
            if path.suffix == ".sqlite":
                with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
                    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                        for row in database.execute(f'SELECT * FROM "{table}"'):
                            for cell in row:
                                raw = cell if isinstance(cell, bytes) else str(cell).encode()
                                yield from unpacked(raw, f"{path}:{table}")


MARKS = (
    CANARY.encode(),
    CANARY.encode("utf-16-le"),
    CANARY.encode().hex().encode(),
    *(base64.b64encode(b"x" * offset + CANARY.encode())[4:10] for offset in range(3)),
)


def assert_silent(project: Path, *said: str) -> None:
    """Nothing that the run has left or said has a canary, in any case or in base64."""
    for name, body in [*stored(project.parent), *((f"output {i}", text.encode()) for i, text in enumerate(said))]:
        found = body.lower() + body
        for mark in MARKS:
            assert mark not in found, f"{name}: {found[max(0, found.find(mark) - 200) :][:400]!r}"
    assert not [path for path in (project.parent / "tmp").rglob("*") if path.is_file()]


def facts(project: Path) -> Any:
    return json.loads((project / "ragstone-run" / "manifest.json").read_text(encoding="utf-8"))["sealed"]


def sealed_in(project: Path) -> list[Any]:
    lines = map(json.loads, (project / "history.jsonl").read_text(encoding="utf-8").splitlines())
    return [line["fact"] for line in lines if line["kind"] == "sealed"]


def test_only_means_are_left_of_a_round_and_each_version_counts_once(project: Path) -> None:
    first = gate(project, "--verbose")
    assert first.returncode == 0, first.stderr
    assert "Means of 24 sealed questions are released, rounded; 49 releases left." in " ".join(first.stdout.split())
    assert_silent(project, first.stdout, first.stderr)
    (fact,) = sealed_in(project)
    assert (fact["release"], fact["count"], fact["questions"]) == (1, 1, N)
    mean = fact["means"]["faithfulness"]["sealed"]
    assert mean["n"] == N
    assert round(mean["mean"], 2) == mean["mean"]
    log = project / "ragstone-run" / "system.log"
    assert not log.is_file() or "asked" not in log.read_text(encoding="utf-8")
    again = gate(project)
    assert again.returncode == 0, again.stderr
    assert "asking 24 sealed questions" not in again.stderr
    assert (len(sealed_in(project)), facts(project)["repeated"]) == (1, True)
    assert facts(project)["means"] == fact["means"]
    for number in (2, 3):
        (project / "more.txt").write_text(f"{number}\n", encoding="utf-8")
        subprocess.run(["git", "add", "."], cwd=project, check=True)
        commit = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "More"]
        subprocess.run(commit, cwd=project, check=True)
        (project / "ragstone.toml").write_text(
            (project / "ragstone.toml").read_text("utf-8").replace("[golden]\n", "[golden]\nsealed_releases = 2\n")
            if number == 2
            else (project / "ragstone.toml").read_text("utf-8"),
            encoding="utf-8",
        )
        found = gate(project)
        assert found.returncode == 0, found.stderr
        assert_silent(project, found.stdout, found.stderr)
    assert [fact["count"] for fact in sealed_in(project)] == [1, 2]
    assert facts(project) is None
    report = (project / "ragstone-run" / "report.md").read_text(encoding="utf-8")
    assert "their means were released 2 times already" in report
    (project.parent / "vault" / "questions.jsonl").write_text(sealed_lines(first=700), encoding="utf-8")
    assert gate(project).returncode == 0
    assert [(fact["release"], fact["count"]) for fact in sealed_in(project)] == [(1, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize("mode", ["raise", "die"])
def test_a_system_that_fails_with_the_question_in_its_error_leaks_nothing(project: Path, mode: str) -> None:
    found = gate(project, "--verbose", MODE=mode)
    assert found.returncode == 0, found.stderr
    assert_silent(project, found.stdout, found.stderr)
    assert sealed_in(project) == []
    assert "Nothing is released of the sealed questions" in found.stdout


def test_a_judge_that_fails_with_the_question_in_its_error_leaks_nothing(project: Path, tmp_path: Path) -> None:
    from aiohttp import web

    def refuse(seen: Seen) -> web.Response | None:
        text = json.dumps(seen.body)
        return web.json_response({"error": {"message": text}}, status=400) if CANARY in text else None

    loop = Loop()
    try:
        fake = loop.serve(FakeLlm(always=refuse))
        llm = {"RAGSTONE_JUDGE": "openai-compatible:m", "RAGSTONE_JUDGE_BASE_URL": f"{fake.url}/v1"}
        found = gate(project, "--verbose", "--metrics", "faithfulness", **llm, RAGSTONE_JUDGE_API_KEY="sk-0123456789")
    finally:
        loop.close()
    assert (project / "ragstone-run" / "judgements.sqlite").is_file(), found.stderr
    assert any(CANARY in json.dumps(seen.body) for seen in fake.seen)
    assert_silent(project, found.stdout, found.stderr)
    assert sealed_in(project) == []


def test_the_cache_of_judgements_has_none_of_sealed_answers_and_their_cost_counts(project: Path) -> None:
    loop = Loop()
    try:
        fake = loop.serve(FakeLlm())
        llm = {"RAGSTONE_JUDGE": "openai-compatible:m", "RAGSTONE_JUDGE_BASE_URL": f"{fake.url}/v1"}
        llm |= {"RAGSTONE_JUDGE_API_KEY": "sk-0123456789"}
        found = gate(project, "--verbose", "--metrics", "faithfulness", **llm)
    finally:
        loop.close()
    assert_silent(project, found.stdout, found.stderr)
    assert len(sealed_in(project)) == 1, found.stdout + found.stderr
    manifest = json.loads((project / "ragstone-run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["cost"]["calls"] == len(fake.seen) == 2 * (30 + N) + 3  # the planted answers
    with sqlite3.connect(project / "ragstone-run" / "judgements.sqlite") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert max(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables) <= 2 * 30


def test_an_interruption_of_the_round_leaves_nothing(project: Path) -> None:
    mark = project.parent / "mark"
    given = command("gate", "--sealed", "--history", "history.jsonl", "--verbose")
    env = environment(variables(project, MODE="hang", MARK=str(mark)))
    running = subprocess.Popen(given, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not mark.exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mark.exists()
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert_silent(project, out, err)


def test_a_crash_of_the_round_says_its_class_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from ragstone.cli import main

    async def crash(this: Any, _context: Any) -> Any:
        (this.out / "samples.jsonl").parent.mkdir()
        (this.out / "samples.jsonl").write_text(CANARY, encoding="utf-8")
        raise RuntimeError(next(iter(this.samples)).question)

    monkeypatch.setattr(sealed_round, "run_round", crash)
    monkeypatch.chdir(project)
    for name, value in variables(project).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(project.parent / "tmp"))
    with pytest.raises(SystemExit) as ended:
        main(["gate", "--sealed", "--history", "history.jsonl", "--verbose"])
    assert ended.value.code == 0
    said = capfd.readouterr()
    assert "asking them ended with RuntimeError" in " ".join(said.out.split())
    assert_silent(project, said.out, said.err)


REFUSED = {
    "in the repository": ("app/own.jsonl", sealed_lines(), 2, "anyone who opens a pull request can read it"),
    "broken": ("vault/questions.jsonl", f'{{"id": "{CANARY}"\n', 3, "can't be read (GoldenSetError)"),
    "duplicate": ("vault/questions.jsonl", sealed_lines(1) * 30, 3, "can't be read (GoldenSetError)"),
    "few": ("vault/questions.jsonl", sealed_lines(5), 3, "needs 20 questions, found 5"),
    "seen": (
        "vault/questions.jsonl",
        sealed_lines() + golden_lines(3),
        3,
        "3 of the sealed questions are in",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_by_others_or_can_t_be_used_is_refused_before_anything_is_asked(
    project: Path, name: str
) -> None:
    file, text, code, says = REFUSED[name]
    path = project.parent / file
    path.write_text(text, encoding="utf-8")
    for given in ("check", "gate"):
        found = ragstone(
            [given, "--sealed", "--history", "history.jsonl"],
            project,
            env=variables(project, RAGSTONE_SEALED=str(path)),
        )
        assert (found.returncode, says in found.stderr) == (code, True), found.stderr
        assert CANARY not in found.stdout + found.stderr
    assert not (project / "ragstone-run").exists()


def test_a_link_out_of_the_repository_is_followed_and_one_into_it_refused(project: Path) -> None:
    (project / "own.jsonl").write_text(sealed_lines(), encoding="utf-8")
    link = project.parent / "vault" / "link.jsonl"
    link.symlink_to(project / "own.jsonl")
    found = ragstone(
        ["check", "--sealed", "--history", "h.jsonl"], project, env=variables(project, RAGSTONE_SEALED=str(link))
    )
    assert found.returncode == 2
    nested = project / "sealed-repository"
    nested.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=nested, check=True)
    (nested / "q.jsonl").write_text(sealed_lines(), encoding="utf-8")
    env = variables(project, RAGSTONE_SEALED=str(nested / "q.jsonl"))
    checked = ragstone(["check", "--sealed", "--history", "h.jsonl"], project, env=env)
    assert checked.returncode == 0, checked.stderr
    assert "24 questions" in checked.stdout
    assert CANARY not in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "job",
    [
        {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/5/merge"},
        {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "5", "CI_PIPELINE_SOURCE": "merge_request_event"},
        {"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "topic", "CI_DEFAULT_BRANCH": "main"},
    ],
)
def test_a_job_that_is_not_of_the_default_branch_does_not_read_them(project: Path, job: dict[str, str]) -> None:
    (project.parent / "vault" / "questions.jsonl").write_text("not even readable", encoding="utf-8")
    found = gate(project, **job)
    assert found.returncode == 0, found.stderr
    assert "the sealed questions are not asked" in found.stderr
    assert facts(project) is None


def test_without_a_history_nothing_is_asked(project: Path) -> None:
    found = ragstone(["gate", "--sealed"], project, env=variables(project))
    assert found.returncode == 2
    assert "counts in the history" in found.stderr
