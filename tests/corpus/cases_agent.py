"""A conversational agent with hops and tools: the example, its variants, and what is broken in its turns and steps."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.corpus.workbench import Registry, Steps, Workbench

CASES = Registry()
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "support-agent"
CHANGED = """
import sys

sys.path.insert(0, {bench!r})
from agent_faults import CHANGES

Agent = CHANGES[{name!r}].agent
"""
FAULTS = ("forgets the order at turn 3", "drops hop 2", "looks orders up without their prefix", "never asks back")
HARMLESS = ("is polite before the answer", "retrieves more contexts")
"""Some of the changes in bench/agent_faults.py."""


def _agent(entrypoint: str, change: str | None, baseline: str | None, bench: Workbench) -> Steps:
    left_out = shutil.ignore_patterns("ragstone-run*", "__pycache__")
    shutil.copytree(EXAMPLE, bench.folder, dirs_exist_ok=True, ignore=left_out)
    policy = (EXAMPLE / "thresholds.toml").read_text(encoding="utf-8").splitlines(keepends=True)
    bench.policy("".join(line for line in policy if "latency" not in line))  # a time is another one each time
    if change is not None:
        bench.write("changed.py", CHANGED.format(bench=str(ROOT / "bench"), name=change))
    return {"gate": bench.gate(golden=None, entrypoint=entrypoint, baseline=baseline)}


CASES.add("agent: first run", _agent, "python:agent:Agent", None, None)
CASES.add("agent: unchanged", _agent, "python:agent:Agent", None, "baseline")
CASES.add("agent: the example's regression", _agent, "python:regressed:Agent", None, "baseline")
for _change in (*FAULTS, *HARMLESS):
    CASES.add(f"agent: {_change}", _agent, "python:changed:Agent", _change, "baseline")
