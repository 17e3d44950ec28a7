"""Write the JSON Schema of a policy, which ships with the package, from its model: python scripts/schemas.py"""

from __future__ import annotations

import json
from pathlib import Path

from ragstone.gate.policy_file import policy_schema

FILE = Path(__file__).parents[1] / "src" / "ragstone" / "gate" / "policy.schema.json"


if __name__ == "__main__":
    FILE.write_text(json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
