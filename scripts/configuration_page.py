"""Write docs/configuration.md from the settings: python scripts/configuration_page.py > docs/configuration.md"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from ragstone.cli.options import FLAGS
from ragstone.settings.load import OPTIONS, TEXTS, default_text
from ragstone.settings.settings import CustomMetric, Settings

HEAD = """\
# Configuration

Later sources override earlier ones: the defaults, `ragstone.toml` (or `[tool.ragstone]` in `pyproject.toml`, or the
next `ragstone.toml` in a folder above, in the same repository), environment variables, and flags; on GitHub, the
[inputs of the action](github-action.md).

Relative paths in the file are relative to its folder; those in flags and variables, to the current directory. An empty
flag unsets what file or variable say: `--baseline ""`. An empty variable counts as not set. Unknown keys are errors,
and so are variables that look like a misspelt one, such as `RAGSTONE_ENTRYPONT`. [Thresholds](thresholds.md) have a
file of their own.

Each item names the key in the file (none: never in a file), the variable and the flag.
"""
INTRO = {
    "golden": "Location of the golden set: see [golden sets](golden-sets.md).",
    "system": "Access to the system under test: see [entrypoints](entrypoints.md).",
    "judge": "The judge and its limits: see [judges](judges.md) and [LLM judges](llm-judges.md).",
    "run": "The metrics and the run directory.",
    "gate": "The baseline and the policy: see [thresholds](thresholds.md).",
}

OWN = "A metric of your own, either a rubric or a Python function: see [custom metrics](metrics.md#custom-metrics)."


def items(table: str, model: type[BaseModel], texts: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """One list item for each key of a table: its variable and flag, its meaning and its default."""
    options = {option.key: option for option in OPTIONS}
    flags = {key: f"`--{flag.replace('_', '-')}`" for flag, key in FLAGS.items()}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from items(table, inner, texts[name], f"{prefix}{name}.")
            continue
        key = f"{table}.{prefix}{name}"
        option = options.get(key)
        names = [f"`{prefix}{name}`"]
        if option is not None and not option.in_file:
            names.clear()
        if option is not None:
            names.append(f"`{option.env}`")
        if key in flags:
            names.append(flags[key])
        default = default_text(field, texts[name].get("unset", ""))
        if isinstance(field.default, bool):
            default = f"`{str(field.default).lower()}`"
        yield item(names, texts[name]["text"], default)


def item(names: Sequence[str], text: str, default: str) -> str:
    sentence = text[0].upper() + text[1:]
    default = f" Default: {default}." if default else ""
    return f"- {', '.join(names)}: {sentence}.{default}\n"


def page() -> str:
    parts = [HEAD]
    for table, intro in INTRO.items():
        model = cast(type[BaseModel], Settings.model_fields[table].annotation)
        parts.append(f"\n## [{table}]\n\n{intro}\n\n")
        parts.extend(items(table, model, TEXTS[table]))
    parts.append(f"\n## [metrics.NAME]\n\n{OWN}\n\n")
    for name, field in CustomMetric.model_fields.items():
        parts.append(item([f"`{name}`"], TEXTS["metrics"][name]["text"], default_text(field)))
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
