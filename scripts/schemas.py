"""Write the JSON Schemas that ship with the package, from the models: python scripts/schemas.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragstone.gate.policy_file import policy_schema
from ragstone.report.document import schema

PACKAGE = Path(__file__).parents[1] / "src" / "ragstone"


def schemas() -> dict[Path, dict[str, Any]]:
    """Each file with its expected content."""
    return {
        PACKAGE / "gate" / "policy.schema.json": policy_schema(),
        PACKAGE / "report" / "schema" / "report.schema.json": schema(),
    }


if __name__ == "__main__":
    for path, document in schemas().items():
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
