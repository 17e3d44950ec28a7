"""Worker processes from the user's side: signals, kills, resuming, and every kind of metric."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.project import append, make_project, ragstone, start, wait_for_lines
from tests.processes import all_end, workers_of

pytestmark = pytest.mark.usefixtures("processes")

CUSTOM = """
[metrics.painted]
python = "checks:painted"
[metrics.polite]
rubric = "Is the answer polite?"
"""


def project(path: Path, n: int = 300) -> Path:
    """Answers of some length, so that judging takes a while; the worker of the system gives one after the other."""
    root = make_project(path / "repo", n=n)
    text = (root / "houses.py").read_text(encoding="utf-8")
    (root / "houses.py").write_text(text.replace('fact + " It has a door."', 'fact + " It has a door." * 200'))
    return root


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_stopped_run_leaves_no_process_and_is_resumed_to_the_same_bytes(
    tmp_path: Path, number: int, code: int
) -> None:
    root = project(tmp_path)
    process = start(["run"], root, env={"RAGSTONE_WORKERS": "2"})
    wait_for_lines(root / "ragstone-run" / "samples.jsonl", 40)
    pids = workers_of(process.pid)
    assert len(pids) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors.decode()
    assert b"Traceback" not in errors
    assert all_end(pids)
    assert (root / "ragstone-run" / "samples.jsonl").read_bytes().count(b"\n") < 300

    ragstone(["run", "--resume"], root, env={"RAGSTONE_WORKERS": "2"}, exit_code=0)
    ragstone(["run", "--out", "one"], root, env={"RAGSTONE_WORKERS": "1"}, exit_code=0)
    assert records(root / "ragstone-run") == records(root / "one")


def records(run: Path) -> list[object]:
    """The records without what differs from one asking to the next."""
    found = [json.loads(line) for line in (run / "samples.jsonl").read_bytes().splitlines()]
    for record in found:
        record["answers"][0]["response"].pop("latency_s")
    return found


def test_functions_and_rubrics_of_the_project_give_what_they_give_in_one_process(tmp_path: Path) -> None:
    root = project(tmp_path, n=40)
    (root / "checks.py").write_text(
        "def painted(answer, id):\n    assert id != 'house-7'\n    return 'red' in answer\n", encoding="utf-8"
    )
    append(root / "ragstone.toml", CUSTOM)
    for number in ("1", "2"):
        env = {"RAGSTONE_WORKERS": number, "RAGSTONE_REPEATS": "2"}
        done = ragstone(["run", "--out", number], root, env=env, exit_code=0)
        assert "polite is not scored" in done.stderr
    found = records(root / "2")
    assert found == records(root / "1")
    assert {record["scores"]["painted"]["state"] for record in found} == {"scored", "failed"}  # type: ignore[index]
    assert {record["scores"]["polite"]["state"] for record in found} == {"not_applicable"}  # type: ignore[index]
