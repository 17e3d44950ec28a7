"""The LLM judge through the whole of `ragstone run`, against a fake provider on loopback.

    python bench/judge_engine.py --samples 500                        # 100 ms a call, 64 in flight
    python bench/judge_engine.py --samples 500 --latency-ms 1000
    python bench/judge_engine.py --samples 5000 --again               # and once more on the same cache
    python bench/judge_engine.py --samples 500 --faults               # 429, 500, malformed, truncated, hanging
    python bench/judge_engine.py --samples 200 --stop INT             # Ctrl-C in the middle, then --resume; or KILL

Each line that it prints is one JSON object: wall time of the whole process, interpreter start included; that time
divided by calls × latency ÷ concurrency (the ideal); CPU of the process for each call, everything included; peak
memory; what the server counted. `start_s` passes until the first call arrives. The fake provider is
`bench/fake_judge.py`. The workload is five contexts of 120 words, 60 words of answer and 40 of reference.

Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from engine import write_world
from processes import RAGSTONE, run

from ragstone.judge.llm.prices import tariff_of
from ragstone.judge.llm.provider import Usage

FAKE = Path(__file__).with_name("fake_judge.py")
FAULTS = {"p429": 0.05, "retry_after": 1, "p500": 0.02, "p_malformed": 0.02, "p_truncated": 0.02, "p_hang": 0.01}


def server(port: int, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    with urllib.request.urlopen(request, timeout=10) as reply:
        found: dict[str, Any] = json.load(reply)
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


def write_config(folder: Path, out: str, options: argparse.Namespace) -> None:
    lines = [
        '[golden]\npaths = "golden.jsonl"',
        '[system]\nentrypoint = "file:out.jsonl"',
        f'[judge]\nname = "openai:gpt-4o-mini"\nbase_url = "http://127.0.0.1:{options.port}/v1"',
        f"concurrency = {options.concurrency}\ntimeout_s = {options.timeout_s}",
    ]
    lines.append(f'[run]\nout = "{out}"')
    if options.stop:
        lines.append('metrics = ["faithfulness", "answer_relevancy", "context_precision", "context_recall"]')
    (folder / "ragstone.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def environment() -> dict[str, str]:
    environ = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ
    }
    return environ | {"OPENAI_API_KEY": "sk-bench", "NO_PROXY": "127.0.0.1"}


def measure_stop(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """What is paid twice, and what is reported, when a run is stopped in the middle and resumed.

    `again` were sent before the stop already. `spent_usd` is by the tokens that the server counted, `reported_usd` is
    what the run says.
    """

    def counts() -> Counter[str]:
        return Counter(server(options.port, "/stats"))

    write_config(folder, "run", options)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and so would the run
    process = subprocess.Popen([*RAGSTONE, "run"], cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
    while counts()["chat"] < 2 * options.samples and process.poll() is None:
        time.sleep(0.01)
    in_flight = counts()["in_flight"]
    process.send_signal(signal.Signals[f"SIG{options.stop}"])
    code, first = process.wait(), counts()
    resumed, last = run([*RAGSTONE, "run", "--resume"], folder, environment()), counts()
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    paid = Usage(input_tokens=last["input_tokens"], output_tokens=last["output_tokens"])
    embedded = Usage(input_tokens=last["embedded_tokens"])
    prices = [tariff_of("openai", name) for name in ("gpt-4o-mini", "text-embedding-3-small")]
    spent = [price.cost_usd(used) for price, used in zip(prices, (paid, embedded), strict=True) if price is not None]
    return {
        "what": f"stop {options.stop}",
        "samples": options.samples,
        "in_flight": in_flight,
        "calls": [first["calls"], last["calls"]],
        "chat_again": last["chat_again"],
        "embedded_again": last["embedded_again"],
        "reported_calls": manifest["cost"]["calls"],
        "spent_usd": round(sum(spent), 6),
        "reported_usd": round(manifest["cost"]["usd"], 6),
        "scored": manifest["counts"]["scored"],
        "exit": [code, resumed.exit_code],
    }


def measure(folder: Path, out: str, options: argparse.Namespace, what: str) -> dict[str, object]:
    server(options.port, "/reset", {})
    write_config(folder, out, options)
    began = time.monotonic()
    finished = run([*RAGSTONE, "run"], folder, environment())
    counted = Counter(server(options.port, "/stats"))
    if not (folder / out / "samples.jsonl").is_file():
        raise SystemExit(finished.output)
    rows = [json.loads(line) for line in (folder / out / "samples.jsonl").open(encoding="utf-8")]
    calls = counted["calls"]
    found: dict[str, object] = {
        "what": what,
        "samples": options.samples,
        "finished": len(rows),
        "wall_s": round(finished.wall_s, 2),
        "chat": counted["chat"],
        "embeddings": counted["embeddings"],
        "cpu_s": round(finished.cpu_s, 2),
        "peak_mb": round(finished.peak_mib),
        "cells": Counter(score["state"] for row in rows for score in row["scores"].values()),
        "injected": {name: counted[f"inj_{name}"] for name in ("429", "500", "malformed", "truncated", "hang")},
        "max_in_flight": counted["max_in_flight"],
        "exit": finished.exit_code,
    }
    if calls:
        found["ratio"] = round(finished.wall_s / (calls * options.latency_ms / 1000 / options.concurrency), 2)
        found["start_s"] = round(counted["first_at"] - began, 2)
        found["cpu_ms_per_call"] = round(1000 * finished.cpu_s / calls, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--timeout-s", type=float, default=20.0)
    parser.add_argument("--again", action="store_true", help="a second run on the same answers and cache")
    parser.add_argument("--faults", action="store_true", help="5 %% 429, 2 %% 500, 2 %% malformed, 2 %% cut, 1 %% hang")
    parser.add_argument("--stop", choices=("INT", "TERM", "KILL"), help="stop in the middle by this signal, and resume")
    parser.add_argument("--port", type=int, default=8795, help="of the fake provider, on loopback")
    options = parser.parse_args()
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
    finally:
        fake.terminate()
        fake.wait()


if __name__ == "__main__":
    main()
