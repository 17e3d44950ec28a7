"""A failure of the system is read where it happened: in the user's code."""

from __future__ import annotations

import json
from pathlib import Path

from ragstone.report.traces import last_frames
from tests.cli.project import ragstone

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app.py", line 20, in answer
    documents = find(question)
                ^^^^^^^^^^^^^^
  File "/srv/rag/search.py", line 7, in find
    return index.query(
        question,
    )
  File "/srv/.venv/lib/python3.13/site-packages/index/client.py", line 900, in query
    raise ConnectionError(url)
ConnectionError: http://localhost:6333
"""


def test_the_last_frames_are_those_of_the_users_code_and_the_error() -> None:
    assert last_frames(TRACEBACK) == (
        'File "/srv/app.py", line 20, in answer',
        "  documents = find(question)",
        'File "/srv/rag/search.py", line 7, in find',
        "  return index.query(",
        "      question,",
        "  )",
        "ConnectionError: http://localhost:6333",
    )


def test_many_frames_are_cut_to_the_last() -> None:
    frames = "".join(f'  File "/srv/app.py", line {n}, in answer\n    answer()\n' for n in range(1, 30))
    lines = last_frames(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    assert [line for line in lines if line.startswith("File")] == [
        f'File "/srv/app.py", line {n}, in answer' for n in (27, 28, 29)
    ]


def test_what_is_no_traceback_is_its_last_lines() -> None:
    assert last_frames("\n".join(map(str, range(20)))) == ("14", "15", "16", "17", "18", "19")
    assert last_frames(None) == ()


APP = """
def find(question):
    return {}[question]

def answer(question):
    return find(question)
"""


def test_a_system_that_only_fails_is_not_asked_to_the_end_and_shows_where(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"What is {n}?", "reference": "It is."} for n in range(40)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    arguments = ["gate", "--golden", "golden.jsonl", "--entrypoint", "app:answer"]
    gate = ragstone(arguments, tmp_path, exit_code=4)
    assert "return {}[question]" in gate.stdout
    assert "system.log" not in gate.stdout
    run = tmp_path / "ragstone-run"
    records = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum("not asked, since the first 20 questions failed" in record for record in records) >= 10
    markdown = (run / "report.md").read_text(encoding="utf-8")
    assert markdown.count("return {}[question]") == 1
    assert "return {}[question]" in (run / "report.html").read_text(encoding="utf-8")
