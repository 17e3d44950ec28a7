"""The LLM judge through the whole of `ragstone run`, against a fake provider on loopback.

    python bench/judge_engine.py --samples 500                        # 100 ms a call, 64 in flight
    python bench/judge_engine.py --samples 500 --latency-ms 1000
    python bench/judge_engine.py --samples 5000 --again               # and once more on the same cache
    python bench/judge_engine.py --samples 500 --faults               # 429, 500, malformed, truncated, hanging
    python bench/judge_engine.py --samples 200 --stop INT             # Ctrl-C in the middle, then --resume; or KILL

Each line that it prints is one JSON object: wall time of the whole process, interpreter start included; that time
divided by calls × latency ÷ concurrency (the ideal); CPU of the process for each call, everything included; peak
memory; what the server counted. `start_s` passes until the first call arrives; `ratio_after_start` and
`cpu_ms_per_call_after_start` leave it out. The fake provider is `bench/fake_judge.py`. The workload is five contexts of
120 words, 60 words of answer and 40 of reference.

Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from engine import write_world

from ragstone.judge.llm.prices import tariff
from ragstone.judge.llm.provider import Usage

FAKE = Path(__file__).with_name("fake_judge.py")
FAULTS = {"p429": 0.05, "retry_after": 1, "p500": 0.02, "p_malformed": 0.02, "p_truncated": 0.02, "p_hang": 0.01}


def server(port: int, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    with urllib.request.urlopen(request, timeout=10) as reply:
        found: dict[str, object] = json.load(reply)
    return found


def start_server(port: int, latency_ms: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(FAKE), "--port", str(port), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            server(port, "/stats")
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit(f"the fake provider did not start; is port {port} in use?")


def started(folder: Path, out: str, options: argparse.Namespace, *flags: str) -> subprocess.Popen[bytes]:
    """`ragstone run` in a separate process. What it says goes to log.txt."""
    config = folder / "ragstone.toml"
    lines = [
        "[golden]",
        'paths = "golden.jsonl"',
        "[system]",
        'entrypoint = "file:out.jsonl"',
        "[judge]",
        'name = "openai:gpt-4o-mini"',
        f'base_url = "http://127.0.0.1:{options.port}/v1"',
        f"concurrency = {options.concurrency}",
        f"timeout_s = {options.timeout_s}",
        *([f"max_cost_usd = {options.max_cost_usd}"] * bool(options.max_cost_usd)),
        "[run]",
        f'out = "{out}"',
        *(
            ['metrics = ["faithfulness", "answer_relevancy", "context_precision", "context_recall"]']
            * bool(options.stop)
        ),
    ]
    config.write_text("\n".join(lines) + "\n")
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
    environ |= {"OPENAI_API_KEY": "sk-bench", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "ragstone", "run", *flags]
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)


def cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    numbers = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Finished:
    """One `ragstone run`: when it began (by the monotonic clock), how long it took, and its CPU time as it went on."""

    began: float
    wall_s: float
    used: resource.struct_rusage
    code: int
    cpu_at: list[tuple[float, float]]

    def cpu_until(self, at: float) -> float:
        """CPU seconds at `at`, by the monotonic clock."""
        return max((cpu for then, cpu in self.cpu_at if then <= at), default=0.0)


def run_ragstone(folder: Path, out: str, options: argparse.Namespace) -> Finished:
    began = time.monotonic()
    process = started(folder, out, options)
    cpu_at: list[tuple[float, float]] = []
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        cpu_at.append((time.monotonic(), cpu_s(process.pid)))
        time.sleep(0.02)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Finished(began, time.monotonic() - began, used, process.returncode, cpu_at)


def measure_stop(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """What is paid twice, and what is reported, when a run is stopped in the middle and resumed.

    `again` were sent before the stop already. `spent_usd` is by the tokens that the server counted, `reported_usd` is
    what the run says.
    """

    def counts() -> dict[str, int]:
        return {name: int(float(str(value))) for name, value in server(options.port, "/stats").items()}

    server(options.port, "/reset", {})
    process = started(folder, "run", options)
    while counts()["chat"] < 2 * options.samples and process.poll() is None:
        time.sleep(0.01)
    in_flight = counts()["in_flight"]
    asked = time.monotonic()
    process.send_signal(signal.Signals[f"SIG{options.stop}"])
    codes = [process.wait()]
    stopped_s, first = time.monotonic() - asked, counts()
    codes.append(started(folder, "run", options, "--resume").wait())
    last = counts()
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    paid = Usage(input_tokens=last["input_tokens"], output_tokens=last["output_tokens"])
    embedded = Usage(input_tokens=last["embedded_tokens"])
    prices = [tariff("openai", name) for name in ("gpt-4o-mini", "text-embedding-3-small")]
    spent = [price.cost_usd(used) for price, used in zip(prices, (paid, embedded), strict=True) if price is not None]
    return {
        "what": f"stop {options.stop}",
        "samples": options.samples,
        "in_flight": in_flight,
        "stopped_s": round(stopped_s, 2),
        "calls": [first["calls"], last["calls"]],
        "chat_again": last["chat_again"],
        "embedded_again": last["embedded_again"],
        "reported_calls": manifest["cost"]["calls"],
        "max_cost_usd": options.max_cost_usd,
        "spent_usd": round(sum(spent), 6),
        "reported_usd": round(manifest["cost"]["usd"], 6),
        "scored": manifest["counts"]["scored"],
        "exit": codes,
    }


def measure(folder: Path, out: str, options: argparse.Namespace, what: str) -> dict[str, object]:
    server(options.port, "/reset", {})
    before = os.getloadavg()[0]
    done = run_ragstone(folder, out, options)
    wall, used = done.wall_s, done.used
    counted = server(options.port, "/stats")
    calls = int(str(counted["calls"]))
    ideal = calls * options.latency_ms / 1000 / options.concurrency
    cpu = used.ru_utime + used.ru_stime
    first = float(str(counted["first_at"])) if calls else done.began
    start = first - done.began
    if not (folder / out / "samples.jsonl").is_file():
        raise SystemExit((folder / "log.txt").read_text())
    rows = [json.loads(line) for line in (folder / out / "samples.jsonl").open()]
    states: dict[str, int] = {}
    for row in rows:
        for score in row["scores"].values():
            state = str(score.get("state") or score.get("kind") or next(iter(score)))
            states[state] = states.get(state, 0) + 1
    return {
        "what": what,
        "samples": options.samples,
        "finished": len(rows),
        "latency_ms": options.latency_ms,
        "concurrency": options.concurrency,
        "wall_s": round(wall, 2),
        "ratio": round(wall / ideal, 2) if calls else None,
        "start_s": round(start, 2),
        "ratio_after_start": round((wall - start) / ideal, 2) if calls else None,
        "chat": counted["chat"],
        "embeddings": counted["embeddings"],
        "cpu_s": round(cpu, 2),
        "cpu_ms_per_call": round(1000 * cpu / calls, 2) if calls else None,
        "cpu_ms_per_call_after_start": round(1000 * (cpu - done.cpu_until(first)) / calls, 2) if calls else None,
        "peak_mb": round(used.ru_maxrss / 1024),
        "cells": states,
        "injected": {name: counted[f"inj_{name}"] for name in ("429", "500", "malformed", "truncated", "hang")},
        "max_in_flight": counted["max_in_flight"],
        "exit": done.code,
        "load_before": round(before, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--timeout-s", type=float, default=20.0)
    parser.add_argument("--again", action="store_true", help="a second run on the same answers and cache")
    parser.add_argument("--faults", action="store_true", help="5 %% 429, 2 %% 500, 2 %% malformed, 2 %% cut, 1 %% hang")
    parser.add_argument("--stop", choices=("INT", "TERM", "KILL"), help="stop in the middle by this signal, and resume")
    parser.add_argument("--max-cost-usd", type=float, help="the budget of a run that is stopped")
    parser.add_argument("--port", type=int, default=8795, help="of the fake provider, on loopback")
    options = parser.parse_args()
    measure_ragstone(options)


def measure_ragstone(options: argparse.Namespace) -> None:
    fake = start_server(options.port, options.latency_ms)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_world(folder, options.samples)
            if options.stop:
                print(json.dumps(measure_stop(folder, options)), flush=True)
                return
            if options.faults:
                server(options.port, "/config", dict(FAULTS))
            print(json.dumps(measure(folder, "run", options, "faults" if options.faults else "run")), flush=True)
            if options.again:
                (folder / "again").mkdir()
                (folder / "run" / "judgements.sqlite").rename(folder / "again" / "judgements.sqlite")
                print(json.dumps(measure(folder, "again", options, "again")), flush=True)
            log = (folder / "log.txt").read_text()
            if "Error" in log or "error" in log.lower()[:200]:
                print(log[-2000:], file=sys.stderr)
    finally:
        fake.terminate()
        fake.wait()


if __name__ == "__main__":
    main()
