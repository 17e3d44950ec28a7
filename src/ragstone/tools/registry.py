"""The commands that tools add, each loaded from its slice when it is called. Adding a tool adds its lines here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """A command's line of help, and the module under ``ragstone.tools`` that defines it as ``command``."""

    summary: str
    module: str


TOOL_COMMANDS: Mapping[str, ToolCommand] = {
    "monitor": ToolCommand("Watch logged interactions of an application.", "monitor.command"),
    "history": ToolCommand("List past runs, add finished ones, write a page of them.", "history_page.command"),
    "generate": ToolCommand("Write draft questions from your documents.", "generate.drafts.command"),
    "review": ToolCommand("Review the drafts of a golden set.", "generate.review"),
    "golden": ToolCommand("Show what is in a golden set, and what needs a look.", "generate.golden.command"),
    "convert": ToolCommand("Convert a golden set to native JSONL.", "generate.convert"),
    "label": ToolCommand("Let people label answers of a run.", "judging.labelling.command"),
    "calibrate": ToolCommand("Compare the judge with human labels.", "judging.calibrate"),
}
