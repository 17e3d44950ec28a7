"""The fake provider beside this repository, made to give the items that a request of Ragstone's asks for by id.

    python bench/fake_judge.py --port 8795 --latency-ms 100

That one fills in any JSON schema; in Ragstone's the ids stand in the last line of the request and not in the schema.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import re
from pathlib import Path
from typing import Any

FAKE = Path(__file__).resolve().parents[2] / "shared" / "bench" / "fake_llm.py"
ASKED = re.compile(r"^Asked for: (.*)\.$", re.MULTILINE)


def groups(prompt: str) -> dict[str, list[str]]:
    lines = ASKED.findall(prompt)
    parts = [part.partition(": ") for part in lines[-1].split("; ")] if lines else []
    return {
        name: ["r1", "r2"] if what.startswith("list them") else [] if what == "none" else what.split(", ")
        for name, _, what in parts
    }


def item(own_id: str, properties: dict[str, Any]) -> dict[str, Any]:
    """One item of a group: ids and contexts as they are asked for, verdicts as the schema has them first."""
    own = {
        "id": own_id,
        "text": f"Statement {own_id}.",
        "quote": "",
        "evidence": ["c1"],
        "found_in": ["c1"],
        "needed": [1],
    }
    return {name: own[name] if name in own else inner["enum"][0] for name, inner in properties.items()}


def main() -> None:
    spec = importlib.util.spec_from_file_location("fake_llm", FAKE)
    assert spec is not None
    assert spec.loader is not None
    fake: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fake)
    plain, chat, last = fake.inst, fake.chat, {"prompt": ""}

    def inst(schema: Any, *rest: Any) -> Any:
        filled = plain(schema, *rest)
        for name, ids in ({} if rest else groups(last["prompt"])).items():
            properties = schema["properties"][name]["items"]["properties"]
            filled[name] = [item(own_id, properties) for own_id in ids]
        return filled

    def remembered(body: dict[str, Any]) -> Any:
        last["prompt"] = str(body["messages"][-1]["content"])
        return chat(body)

    fake.inst = inst
    fake.ROUTES["/chat/completions"] = ("chat", remembered)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8799)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    given = parser.parse_args()
    fake.CFG["latency_ms"] = given.latency_ms
    fake.reset()
    asyncio.run(fake.main(given))


if __name__ == "__main__":
    main()
