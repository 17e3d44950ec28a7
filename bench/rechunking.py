"""Labels by text under changes of the corpus: ``python bench/rechunking.py [FOLDER]``.

A retriever returns the chunks of five stretches of text. Then the corpus changes, and the contexts before and after are
compared as in a gate run. *False drops*: samples whose recall falls although the same text is returned, only cut in
another way. *Named*: samples whose evidence was deleted, or moved to the end of the ranking, that are named as that.
The corpus is synthetic (invented words with a Zipf-like distribution, phrases that come back, a fixed seed), and, if
they are at hand, passages of CLAPNQ and pages of WiCE with the sentences that people marked as evidence
(bench/data_sets.py). The last table shows how the two limits were chosen.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_sets import DEFAULT

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics import evidence as matching
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.retrieval_change import EvidenceChange, evidence_of, retrieval_change
from ragstone.metrics.score import Scored
from ragstone.system.response import Context, Response

STRETCHES = 5
SIZE = 60
DOCUMENTS = 400
MAX_SENTENCES = 40
FUNCTION = ("the", "of", "and", "to", "in", "a", "is", "was", "for", "on", "with", "by", "that", "it", "as", "at")

Document = list[str]
"""A document as its sentences."""
Cut = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """Documents in the order of their rank, and the evidence: sentences of some of them, by document and place."""

    key: str
    documents: tuple[tuple[str, ...], ...]
    evidence: tuple[tuple[int, int], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self.documents[at][place] for at, place in self.evidence)

    def without_evidence(self) -> tuple[tuple[str, ...], ...]:
        gone = set(self.texts)
        return tuple(tuple(one for one in sentences if one not in gone) for sentences in self.documents)


def by_words(size: int, overlap: int = 0) -> Cut:
    def cut(text: str) -> list[str]:
        found = text.split()
        starts = range(0, max(1, len(found) - overlap), size - overlap)
        return [" ".join(found[start : start + size]) for start in starts]

    return cut


def by_characters(size: int) -> Cut:
    return lambda text: [text[start : start + size] for start in range(0, len(text), size)]


def by_sentences(count: int) -> Cut:
    def cut(text: str) -> list[str]:
        found = re.split(r"(?<=[.!?]) ", text)
        return [" ".join(found[start : start + count]) for start in range(0, len(found), count)]

    return cut


def dressed(cut: Cut) -> Cut:
    """The same chunks with a heading, other quotes and line breaks, in capitals here and there: another parser."""

    def dress(text: str) -> list[str]:
        return [
            f"# Handbook > Part {number}\n\n" + chunk.replace("'", "’").replace(" ", "\n", 3).replace(". ", ".\n\n")
            for number, chunk in enumerate(cut(text))
        ]

    return dress


CUTS: dict[str, Cut] = {
    "30 words": by_words(30),
    "45 words, 15 of them twice": by_words(45, 15),
    "200 words": by_words(200),
    "250 characters": by_characters(250),
    "one sentence": by_sentences(1),
    "two sentences, another parser": dressed(by_sentences(2)),
    "whole documents": lambda text: [text],
}


def contexts(documents: Sequence[Sequence[str]], cut: Cut, name: str) -> tuple[Context, ...]:
    return tuple(
        Context(chunk, f"{name}-{at}-{number}")
        for at, sentences in enumerate(documents)
        for number, chunk in enumerate(cut(" ".join(sentences)))
    )


def synthetic(count: int) -> list[Case]:
    draw = random.Random(0)
    phrases = [" ".join(_words(draw, 6)) for _ in range(40)]

    def sentence() -> str:
        found = _words(draw, draw.randint(6, 28))
        if draw.random() < 0.3:
            found.insert(draw.randrange(len(found)), draw.choice(phrases))
        return " ".join(found).capitalize() + "."

    corpus = [tuple(sentence() for _ in range(draw.randint(4, 14))) for _ in range(DOCUMENTS)]
    return list(_cases(corpus, [None] * count, draw))


def real(folder: Path) -> dict[str, list[Case]]:
    sets = {}
    draw = random.Random(0)
    with gzip.open(folder / "clapnq_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["answerable"]]
    marked = [{one for chosen in row["selected_sentences"] for one in chosen} for row in rows]
    sets["CLAPNQ dev"] = list(_cases([tuple(row["sentences"]) for row in rows], marked, draw))
    with gzip.open(folder / "wice_claim.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["split"] == "test" and any(row["supporting_sentences"])]
    marked = [{row["evidence_sentences"][at] for one in row["supporting_sentences"] for at in one} for row in rows]
    pages = [
        _around(row["evidence_sentences"], min(map(min, filter(None, row["supporting_sentences"])))) for row in rows
    ]
    sets["WiCE test"] = list(_cases(pages, marked, draw))
    return sets


def _cases(corpus: Sequence[tuple[str, ...]], marked: Sequence[set[str] | None], draw: random.Random) -> Iterator[Case]:
    for number, evidence in enumerate(marked):
        home = number % len(corpus)
        others = draw.sample([at for at in range(len(corpus)) if at != home], STRETCHES - 1)
        order = [home, *others]
        rank = draw.randrange(2)
        order[0], order[rank] = order[rank], order[0]
        documents = tuple(corpus[at] for at in order)
        places = range(len(corpus[home]))
        if evidence is None:
            first = draw.choice(places)
            chosen = [at for at in range(first, first + draw.randint(1, 3)) if at in places]
        else:
            chosen = [at for at in places if corpus[home][at] in evidence and len(matching.words(corpus[home][at])) > 3]
        if chosen:
            yield Case(str(number), documents, tuple((rank, at) for at in chosen))


def _around(sentences: Sequence[str], place: int) -> tuple[str, ...]:
    start = max(0, place - MAX_SENTENCES // 2)
    return tuple(sentences[start : start + MAX_SENTENCES])


def _words(draw: random.Random, count: int) -> list[str]:
    return [
        draw.choice(FUNCTION) if draw.random() < 0.4 else f"w{'aeiou'[number % 5]}r{number:x}k"
        for number in (int(draw.paretovariate(0.7)) % 50_000 for _ in range(count))
    ]


def recall(case: Case, found: tuple[Context, ...]) -> float:
    (metric,) = select_metrics(["recall@1000"])
    sample = Sample(case.key, "?", reference_contexts=case.texts)
    score = metric.score(sample, Response(case.key, "", found), Judgements())
    assert isinstance(score, Scored)
    return score.value


def changed(case: Case, before: tuple[Context, ...], now: tuple[Context, ...], *, labels: str) -> EvidenceChange | None:
    sample = Sample(case.key, "?", reference_contexts=case.texts)
    if labels == "ids":
        named = {one.id: 1.0 for one in before if any(recall_of_text(text, one.text) for text in case.texts)}
        sample = Sample(case.key, "?", relevant_ids={name: 1.0 for name in named if name is not None})
    found = retrieval_change(evidence_of(sample, before), before, now)
    return None if found is None else found.change


def recall_of_text(text: str, chunk: str) -> bool:
    return matching.locate((text,), (chunk,))[0].held


@dataclass(frozen=True, slots=True)
class Counts:
    """Of `n` samples: how many lose recall or aren't called re-chunked although the text is the same, and how many are
    named when the evidence is deleted (by text; by ids, of `of_ids`) or moved to the end."""

    n: int
    drops: int
    not_rechunked: int
    deleted: int
    deleted_by_id: int
    of_ids: int
    lower: int


def measure(cases: Sequence[Case], cut: Cut) -> Counts:
    start = by_words(SIZE)
    drops = wrong = named = lower = named_ids = of_ids = 0
    for case in cases:
        before, after = contexts(case.documents, start, "old"), contexts(case.documents, cut, "new")
        drops += recall(case, after) < recall(case, before)
        wrong += changed(case, before, after, labels="text") is not EvidenceChange.RECHUNKED
        deleted = contexts(case.without_evidence(), cut, "new")
        named += changed(case, before, deleted, labels="text") is EvidenceChange.GONE
        by_id = changed(case, before, deleted, labels="ids")
        of_ids += by_id is not None
        named_ids += by_id is EvidenceChange.GONE
        at = case.evidence[0][0]
        moved = (*case.documents[:at], *case.documents[at + 1 :], case.documents[at])
        lower += changed(case, before, contexts(moved, cut, "new"), labels="text") is EvidenceChange.LOWER
    return Counts(len(cases), drops, wrong, named, named_ids, of_ids, lower)


def table(name: str, cases: Sequence[Case]) -> None:
    for how, cut in CUTS.items():
        found = measure(cases, cut)
        print(
            f"| {name} | {how} | {found.n} | {found.drops} | {found.not_rechunked} | {found.deleted / found.n:.3f} | "
            f"{found.deleted_by_id / max(1, found.of_ids):.3f} ({found.of_ids}) | {found.lower / found.n:.3f} |"
        )


def limits(name: str, cases: Sequence[Case]) -> None:
    start = by_words(SIZE)
    held, gap = matching.HELD, matching.GAP
    for matching.HELD, matching.GAP in ((0.5, 99), (0.8, 99), (0.9, 99), (0.9, 10), (0.9, 5), (0.9, 3), (1.0, 1)):
        matching.locate.cache_clear()
        drops = named = total = of_ids = 0
        for case in cases:
            before = contexts(case.documents, start, "old")
            for cut in CUTS.values():
                after = contexts(case.documents, cut, "new")
                total += 1
                drops += changed(case, before, after, labels="text") is EvidenceChange.GONE
                found = changed(case, before, contexts(case.without_evidence(), cut, "new"), labels="ids")
                of_ids += found is not None
                named += found is EvidenceChange.GONE
        print(f"| {name} | {matching.HELD} | {matching.GAP} | {drops} of {total} | {named / max(1, of_ids):.3f} |")
    matching.HELD, matching.GAP = held, gap
    matching.locate.cache_clear()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    sets = {"synthetic": synthetic(300)}
    if (folder / "clapnq_dev.jsonl.gz").is_file() and (folder / "wice_claim.jsonl.gz").is_file():
        sets |= real(folder)
    else:
        print(f"CLAPNQ and WiCE are not in {folder}: the synthetic corpus only.")
    print("| texts | cut anew | samples | false drops | not re-chunked | deleted: named | by ids | lower: named |")
    print("|---|---|---|---|---|---|---|---|")
    for name, cases in sets.items():
        table(name, cases)
    print("\n| texts | share | gap | false drops | deleted, by ids: named |")
    print("|---|---|---|---|---|")
    for name, cases in sets.items():
        limits(name, cases[:200])


if __name__ == "__main__":
    main()
