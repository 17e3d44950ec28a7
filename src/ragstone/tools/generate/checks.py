"""Rules that a draft of a golden sample must keep, checked without a model, and the
samples that it must not repeat."""

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
from ragstone.tools.generate.drafter import Drafted
from ragstone.tools.generate.passages import Passage, find_quote

_MAX_CHARACTERS = 600
_LINK = re.compile(r"https?://|www\.|\]\([^)]*\)|\bmailto:", re.IGNORECASE)
_WORDING = read_table("wording.toml", __package__)
_NOUN = f"(?:{'|'.join(_WORDING['nouns'])})"
_POINTING = re.compile(
    "|".join(_WORDING["pointing"]).replace("NOUN", _NOUN), re.IGNORECASE
)
"""Questions that can't be understood without the document."""


class Refused(Exception):  # noqa: N818 - an outcome of one draft
    """The draft is refused; its text is the reason."""


def check_wording(drafted: Drafted) -> None:
    """Raise Refused for a question or an answer that is too long, has a link, or points
    to a document."""
    if len(drafted.question) > _MAX_CHARACTERS:
        raise Refused(f"the question is longer than {_MAX_CHARACTERS} characters")
    if _POINTING.search(drafted.question):
        raise Refused("the question points to its document (by rule)")
    if _LINK.search(drafted.answer) or _LINK.search(drafted.question):
        raise Refused("the question or the answer has a link")


def located(drafted: Drafted, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
    """For each quote its passage, of one or two, and its words as they stand there.

    Raises Refused if a quote is in none of `passages`, or if one of `passages` has no
    quote.
    """
    evidence: dict[tuple[Passage, str], None] = {}
    for quote in drafted.quotes:
        named_first = passages if quote.passage == "p1" else passages[::-1]
        for passage in named_first:
            words = find_quote(quote.quote, passage.text)
            if words:
                evidence[passage, words] = None
                break
        else:
            raise Refused("the evidence is not in the document")
    with_quote = {passage for passage, _ in evidence}
    if with_quote != set(passages):
        raise Refused("the evidence is from one of the two passages only")
    return list(evidence)


def configured_samples(
    settings: Settings, *, without: Path | None = None, required: bool = False
) -> Sequence[Sample]:
    """The golden set in the config, without the file `without`. Unless it is
    `required`, it may not be there yet.

    Raises GoldenSetError.
    """
    paths = []
    for path in settings.golden.paths:
        resolved = settings.path(path)
        is_other = without is None or resolved.resolve() != without.resolve()
        if is_other and (required or resolved.exists() or set("*?[") & set(path)):
            paths.append(path)
    if not paths:
        return ()
    golden = settings.golden
    golden_set = load_golden_set(
        paths, root=settings.root, columns=golden.columns, history=golden.history
    )
    return golden_set.samples


def invalid_sample(sample: Sample) -> str | None:
    """Why a golden set can't hold `sample`: it is written, and read as any other."""
    try:
        rows = list(map(json.loads, native_lines([sample])))
        (read,) = golden_set_from_data(rows)
    except GoldenSetError as error:
        return f"it is no valid sample: {error.message}"
    if replace(read, origin=None) != sample:
        return "it is no valid sample: it reads differently when written"
    return None
