"""The prompts: data files of this package, rendered identically for every sample so that providers can cache them."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from ragstone.judge.untrusted_text import Block, fenced

RUBRIC = "rubric"
"""The task of the user's own rubrics. Its prompt belongs to the version of their metrics, not to the judge's."""

ENTITIES = "entities"
"""The task of context entity recall. Its prompt belongs to the version of that metric, too."""

STANDALONE = "standalone_question"
"""The task of writing out the last question of a conversation: only samples with a history need it."""

DRAFT_QUESTION = "draft_question"
DRAFT_UNANSWERABLE = "draft_unanswerable"
DRAFT_PARAPHRASE = "draft_paraphrase"
DRAFT_ATTEMPT = "draft_attempt"
DRAFT_RECALL = "draft_recall"
DRAFT_INSPECTION = "draft_inspection"
DRAFT_WORSE = "draft_worse"
"""The tasks of `ragstone generate`, which judge nothing."""

PARAPHRASE = "paraphrase"
TRANSLATION = "translation"
"""The tasks of asking a question in other words, or in another language: only perturbed questions need them."""

APART = (
    *(RUBRIC, ENTITIES, STANDALONE, PARAPHRASE, TRANSLATION, DRAFT_QUESTION, DRAFT_UNANSWERABLE, DRAFT_PARAPHRASE),
    *(DRAFT_ATTEMPT, DRAFT_RECALL, DRAFT_INSPECTION, DRAFT_WORSE),
)
"""Tasks that came later: their prompts and schemas are no part of the judge's identity, so that baselines stay good."""

NAMES = (
    "statements",
    "support",
    "context_use",
    "context_use_no_reference",
    "reverse_questions",
    "reference_match",
    "context_relevance",
    "direct_score",
    "direct_preference",
    *APART,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One task. `static` is everything before the data; `digest` is its SHA-256 (hex)."""

    name: str
    version: str
    static: str
    digest: str


@functools.cache
def load_prompt(name: str, *, brief: bool = False) -> Prompt:
    """The prompt called `name`, between the shared part and its worked examples; a `brief` one has fewer examples."""
    document = _document(name)
    shared = _document(str(document.get("shared", "shared")))
    parts = [str(shared["text"]).strip(), str(document["text"]).strip(), "Worked examples"]
    for example in document["examples"]:  # type: ignore[attr-defined]
        if brief and not example.get("brief"):
            continue
        blocks = [Block(name=block[0], text=block[1]) for block in example["blocks"]]
        asked = asked_line(example["asked"]) if "asked" in example else ""
        parts.append(f"{fenced(blocks)}{asked}\nReply: {example['reply']}")
    static = "\n\n".join(parts)
    version = f"{shared['version']}.{document['version']}"
    return Prompt(name, version, static, hashlib.sha256(f"{name}\0{version}\0{static}".encode()).hexdigest())


def asked_line(asked: str) -> str:
    """The last line of a request: the requested groups and ids."""
    return f"\n\nAsked for: {asked}."


def _document(name: str) -> dict[str, object]:
    return tomllib.loads(files("ragstone.judge.llm").joinpath("prompts", f"{name}.toml").read_text("utf-8"))
