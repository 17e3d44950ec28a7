"""Could statements that stand in a context word for word be left out? ``python bench/verbatim_statements.py [DIR]``

A statement stands in a context if one of the context's sentences is the same, but for case, white space, typography
and the stop at the end. Counted are the statements of labelled answers that do, and those of them that people say are
not supported. Statements are the sentences of the answers: a model that breaks answers into statements rewrites some.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_sets import data_folder

from ragstone.judge.sentences import split_sentences

FILES = ("begin.jsonl.gz", "wice_claim.jsonl.gz", "ragtruth_qa_half.jsonl.gz", "clapnq_dev.jsonl.gz")
SPACES = re.compile(r"[\s*_`\"'“”„«»‘’]+")
Labelled = Iterator[tuple[str, list[str], bool]]
"""A statement, its contexts, and whether people say that they support it."""


def plain(text: str) -> str:
    return SPACES.sub("", unicodedata.normalize("NFKC", text)).casefold().rstrip(".")


def stands_in(statement: str, contexts: list[str]) -> bool:
    wanted = plain(statement)
    return any(
        wanted == plain(sentence)
        for context in contexts
        if wanted in plain(context)
        for sentence in split_sentences(context, "en")
    )


def rows(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def begin(file: Path) -> Labelled:
    """Answers of one sentence, whose label is that of the sentence."""
    for row in rows(file):
        sentences = split_sentences(row["answer"], "en")
        if row["label_faithful"] is not None and len(sentences) == 1:
            context = row["context"]
            yield sentences[0], [context] if isinstance(context, str) else context, bool(row["label_faithful"])


def wice(file: Path) -> Labelled:
    for row in rows(file):
        yield row["claim"], ["\n".join(row["evidence_sentences"])], row["label"] == "supported"


def ragtruth(file: Path) -> Labelled:
    """Sentences of six models' answers; one that a marked span overlaps is not supported."""
    for row in rows(file):
        for sentence in split_sentences(row["answer"], "en"):
            at = row["answer"].find(sentence)
            if at >= 0:
                yield (
                    sentence,
                    row["contexts"],
                    not any(span["start"] < at + len(sentence) and span["end"] > at for span in row["spans"]),
                )


def clapnq(file: Path) -> Labelled:
    """Sentences of answers that people took from the passage: all are supported, and many are copied."""
    for row in rows(file):
        for answer in row["answers"] if row["answerable"] else ():
            yield from ((sentence, [row["context"]], True) for sentence in split_sentences(answer, "en"))


def main(folder: Path) -> None:
    print("| data | statements | word for word | of these not supported |\n|---|---|---|---|")
    for file, read in zip(FILES, (begin, wice, ragtruth, clapnq), strict=True):
        found = list(read(folder / file))
        there = [supported for statement, contexts, supported in found if stands_in(statement, contexts)]
        print(f"| {file} | {len(found):,} | {len(there)} ({len(there) / len(found):.1%}) | {there.count(False)} |")


if __name__ == "__main__":
    main(data_folder(FILES, *sys.argv[1:2]))
