"""Checks drafts of golden samples without a model, and reads the samples that they must
not repeat."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragstone.errors import GoldenSetError
from ragstone.files import read_table
from ragstone.golden.load import golden_set_from_data, load_golden_set
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import Sample
from ragstone.settings.settings import Settings
from ragstone.tools.generate.drafter import DraftedQuestion
from ragstone.tools.generate.passages import Passage, find_quote

_MAX_QUESTION_CHARACTERS = 600
_LINK = re.compile(r"https?://|www\.|\]\([^)]*\)|\bmailto:", re.IGNORECASE)
_WORDING = read_table("wording.toml", __package__)
_NOUN = f"(?:{'|'.join(_WORDING['nouns'])})"
_POINTING = re.compile(
    "|".join(_WORDING["pointing"]).replace("NOUN", _NOUN), re.IGNORECASE
)
"""Matches questions that can't be understood without the document, such as "What does
this passage say?"."""


class Refused(Exception):  # noqa: N818 - an outcome of one draft
    """The draft is refused; its text is the reason."""


def check_wording(drafted: DraftedQuestion) -> None:
    """Raise Refused for a question that is too long or points to a document, and for a
    question or an answer with a link."""
    if len(drafted.question) > _MAX_QUESTION_CHARACTERS:
        raise Refused(
            f"the question is longer than {_MAX_QUESTION_CHARACTERS} characters"
        )
    if _POINTING.search(drafted.question):
        raise Refused("the question points to its document (by rule)")
    if _LINK.search(drafted.answer) or _LINK.search(drafted.question):
        raise Refused("the question or the answer has a link")


def locate_quotes(
    drafted: DraftedQuestion, passages: Sequence[Passage]
) -> list[tuple[Passage, str]]:
    """Find each quote in one of the one or two `passages`, and return that passage with
    the words of the quote as they are written there.

    Raises Refused if a quote is in no passage, or if a passage has no quote.
    """
    located: dict[tuple[Passage, str], None] = {}
    for quote in drafted.quotes:
        # The passage that the model names comes first, but it may name the wrong one.
        candidates = passages if quote.passage == "p1" else passages[::-1]
        for passage in candidates:
            words = find_quote(quote.quote, passage.text)
            if words:
                located[passage, words] = None
                break
        else:
            raise Refused("the evidence is not in the document")
    quoted_passages = {passage for passage, _ in located}
    if quoted_passages != set(passages):
        raise Refused("the evidence is from one of the two passages only")
    return list(located)


def configured_samples(
    settings: Settings, *, without: Path | None = None, required: bool = False
) -> Sequence[Sample]:
    """Read the golden set in the config, except the file `without`. Files that don't
    exist yet are left out, unless they are `required`.

    Raises GoldenSetError.
    """
    paths = []
    for path in settings.golden.paths:
        resolved = settings.path(path)
        is_left_out = without is not None and resolved.resolve() == without.resolve()
        is_glob = not set("*?[").isdisjoint(path)
        if not is_left_out and (required or is_glob or resolved.exists()):
            paths.append(path)
    if not paths:
        return ()
    golden = settings.golden
    golden_set = load_golden_set(
        paths, root=settings.root, columns=golden.columns, history=golden.history
    )
    return golden_set.samples


def why_invalid(sample: Sample) -> str | None:
    """Why `sample` can't be in a golden set; None if it can. To find out, it is written
    and read back."""
    try:
        rows = list(map(json.loads, native_lines([sample])))
        (read_back,) = golden_set_from_data(rows)
    except GoldenSetError as error:
        return f"it is no valid sample: {error.message}"
    if replace(read_back, origin=None) != sample:
        return "it is no valid sample: it reads differently when written"
    return None
