"""The code of a Jupyter notebook."""

from __future__ import annotations

import json


def code_of(content: bytes) -> str:
    """The code of all cells, without magics and shell commands; nothing if it can't be read."""
    try:
        cells = json.loads(content)["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    lines = [line for text in texts for line in text.splitlines()]
    return "\n".join(line for line in lines if line.lstrip()[:1] not in ("%", "!"))
