"""What `init` writes and what the example of a policy says are what the first path says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ragstone.gate.policy import default_policy
from ragstone.gate.policy_table import PolicyTable
from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter

ROOT = Path(__file__).parents[2]
QUICKSTART = "docs/quickstart.md"
THRESHOLDS = "docs/your-thresholds.md"
EXAMPLE = "thresholds.example.toml"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def floor_and_drop(metric: str) -> tuple[float | None, float | None]:
    rule = default_policy().in_force[metric]
    return rule.min, rule.max_drop


POLICY = PolicyTable()


def test_init_writes_what_the_quickstart_says(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    proposal = Proposal("python:rag:answer", "it was named")
    first = write_starter(tmp_path, proposal, survey(tmp_path))
    rows = re.findall(r"^\| `([^`]+)` \|", text_of(QUICKSTART), re.MULTILINE)
    assert "This writes four files, overwrites nothing" in text_of(QUICKSTART)
    assert (sorted(first.written), len(rows)) == (sorted(rows), 4)
    assert "it also adds `ragstone-run/` to `.gitignore`" in text_of(QUICKSTART)
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "ragstone-run/\n"
    assert write_starter(tmp_path, proposal, survey(tmp_path)).written == []
    assert "The `thresholds.toml` that `init` wrote names no metric" in text_of(THRESHOLDS)
    assert "metrics" not in tomllib.loads((tmp_path / "thresholds.toml").read_text(encoding="utf-8"))


def test_the_example_has_the_default_rules_and_no_default_for_what_is_commented_out() -> None:
    text = text_of(EXAMPLE)
    rules = tomllib.loads(text)["metrics"]
    for metric, rule in rules.items():
        assert (rule.get("min"), rule["max_drop"]) == floor_and_drop(metric)
    table = ""
    for line in text.splitlines():
        if header := re.match(r"\[([\w.]+)\]", line):
            table = header[1]
        key = re.match(r"#~ (\w+) =", line)
        if key is not None and table in ("gate", "drift", "system", "labels"):
            assert getattr(getattr(POLICY, table), key[1]) is None, line
