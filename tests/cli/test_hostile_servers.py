"""Memory beside servers that send without end: measured in a process of its own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.cli.project import command, environment, golden_lines, write_rows
from tests.hostile_http import hostile_server

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc"),
]

ROOM_BYTES = 100 * 1024**2
"""Beyond a run that reads nothing: four replies of the largest size at once, and what reading them takes."""
FLOODS = (
    *("gzip bomb", "bomb in a bomb", "endless body", "endless chunks"),
    *("endless error", "endless headers", "brackets"),
)


def peak_bytes(argv: list[str], cwd: Path, env: dict[str, str]) -> tuple[int, int, str]:
    """Exit code, the most memory that was resident (VmHWM), and what was printed."""
    with (cwd / "printed").open("wb") as out:
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        status = Path(f"/proc/{process.pid}/status")
        peak = 0
        deadline = time.monotonic() + 300
        while process.poll() is None:
            assert time.monotonic() < deadline, "it never ended"
            for line in status.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
            time.sleep(0.01)
    return process.returncode, peak, (cwd / "printed").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    # Three samples, each tried five times: fewer failures than those after which a judge counts as down.
    (tmp_path / "golden.jsonl").write_text(golden_lines(3))
    rows = [{"id": f"house-{i}", "answer": "It is red.", "contexts": ["It is red."]} for i in range(3)]
    write_rows(tmp_path / "answers.jsonl", rows)
    return tmp_path


def arguments(side: str, port: int) -> tuple[list[str], dict[str, str]]:
    base = ["run", "--golden", "golden.jsonl", "--metrics", "faithfulness"]
    settings = {"RAGSTONE_CONCURRENCY": "4"}
    if side == "system":
        return command(*base, "--entrypoint", f"http://127.0.0.1:{port}/"), settings | {"RAGSTONE_TIMEOUT": "20"}
    judge = ["--judge", "openai-compatible:m"]
    settings |= {"RAGSTONE_JUDGE_TIMEOUT": "20", "RAGSTONE_JUDGE_CONCURRENCY": "4"}
    settings |= {"RAGSTONE_JUDGE_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    return command(*base, "--entrypoint", "file:answers.jsonl", *judge), settings


@pytest.mark.parametrize("side", ["system", "judge"])
def test_a_flood_takes_no_more_memory_than_one_reply_may(project: Path, side: str) -> None:
    peaks = {}
    for kind in ["no HTTP", *FLOODS]:
        with hostile_server(kind) as port:
            argv, settings = arguments(side, port)
            code, peaks[kind], printed = peak_bytes([*argv, "--out", f"run {kind}"], project, environment(settings))
        assert code == (4 if side == "system" else 0), printed
        records = list(RunDirectory.open(project / f"run {kind}").records())
        assert len(records) == 3
        assert all(record.response.failure or record.scores["faithfulness"] for record in records)
    calm = peaks.pop("no HTTP")
    assert {kind: (peak - calm) // 1024**2 for kind, peak in peaks.items() if peak - calm > ROOM_BYTES} == {}
