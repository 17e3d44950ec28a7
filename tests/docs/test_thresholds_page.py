"""docs/thresholds.md: what it shows is valid, and what it says is so."""

from __future__ import annotations

import re
import tomllib

from ragstone.gate.policy import default_policy
from ragstone.gate.policy_table import PolicyTable
from tests.docs.page import ROOT, page

PAGE = page("thresholds")


def test_the_table_of_defaults_is_that_of_the_policy() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]*) ?\| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
    found = {name: (float(floor) if floor else None, float(drop)) for name, floor, drop in rows}
    assert found == {name: (rule.min, rule.max_drop) for name, rule in default_policy().rules_in_force.items()}


def test_every_key_is_explained() -> None:
    schema = PolicyTable.model_json_schema()
    keys = set(schema["properties"])
    for table in schema["$defs"].values():
        keys |= set(table.get("properties", {}))
    assert [key for key in sorted(keys) if key not in PAGE + page("monitoring")] == []


def test_the_example_has_the_default_rules_and_no_default_for_what_is_commented_out() -> None:
    text = (ROOT / "thresholds.example.toml").read_text(encoding="utf-8")
    for metric, rule in tomllib.loads(text)["metrics"].items():
        default = default_policy().rules_in_force[metric]
        assert (rule.get("min"), rule["max_drop"]) == (default.min, default.max_drop)
    table = ""
    for line in text.splitlines():
        if header := re.match(r"\[([\w.]+)\]", line):
            table = header[1]
        key = re.match(r"#~ (\w+) =", line)
        if key is not None and table in ("gate", "drift", "system", "labels"):
            assert getattr(getattr(PolicyTable(), table), key[1]) is None, line
