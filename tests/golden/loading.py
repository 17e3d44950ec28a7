"""Golden sets from texts and rows, as tests load them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet


def load_text(folder: Path, name: str, text: str | bytes, **columns: str) -> GoldenSet:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return load_golden_set(name, root=folder, columns=columns)


def load_rows(folder: Path, *rows: object, columns: Mapping[str, str] | None = None, **options: Any) -> GoldenSet:
    """The golden set of JSON Lines."""
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_golden_set("golden.jsonl", root=folder, columns=columns, **options)
