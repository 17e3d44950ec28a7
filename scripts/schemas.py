"""Write the JSON Schemas that ship with the package, from their models: python scripts/schemas.py"""

from __future__ import annotations

import json
from pathlib import Path

from ragstone.gate.policy_file import policy_schema

PACKAGE = Path(__file__).parents[1] / "src" / "ragstone"
SCHEMAS = {
    "gate/policy.schema.json": policy_schema,
}


if __name__ == "__main__":
    for name, schema in SCHEMAS.items():
        (PACKAGE / name).write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
