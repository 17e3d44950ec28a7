"""The offline judge beside bare overlap: ``python bench/overlap_baselines.py [DATA_DIR]``.

Prints, for labelled sets that no weights were learnt from, the AUROC of faithfulness and of hallucination, beside four
scores that need no judge: the share of content words that the contexts hold, ROUGE-L precision, the cosine of TF-IDF
vectors, and a logistic regression of five overlap features of the whole answer, learnt on the same BEGIN dev and WiCE
dev.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from data_sets import data_folder, read_rows
from labelled_sets import Case, Pairwise, load_items
from public_scores import public_scores
from train_offline_judge import Floats, Row, fit, training_texts

from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.passage import read_passage
from ragstone.judge.offline.tokens import NUMBER
from ragstone.tools.judging.measures import auroc

FILES = {
    "BEGIN (wow, test)": "begin.jsonl.gz",
    "WiCE claims (test)": "wice_claim.jsonl.gz",
    "RAGTruth QA": "ragtruth_qa_half.jsonl.gz",
    "HaluEval QA": "halueval_qa_500.jsonl.gz",
}
FIVE = ("content words", "in the best context", "bigrams", "shared numbers", "missing words")
Labelled = tuple[Case, float]


@dataclass(frozen=True)
class Overlap:
    """The content words of an answer and of its contexts."""

    answer: tuple[str, ...]
    contexts: tuple[tuple[str, ...], ...]

    @property
    def known(self) -> frozenset[str]:
        return frozenset(word for context in self.contexts for word in context)

    def content(self) -> float:
        """The share of the answer's content words that the contexts hold."""
        words = set(self.answer)
        return len(words & self.known) / max(1, len(words))

    def rouge_l(self) -> float:
        """The longest common subsequence with one context ÷ the words of the answer."""
        return max(_subsequence(self.answer, context) for context in self.contexts) / max(1, len(self.answer))

    def features(self) -> tuple[float, ...]:
        """Content words found anywhere and in the best context, bigrams, numbers, 1 ÷ (1 + missing words)."""
        words, known = set(self.answer), self.known
        pairs = set(pairwise(self.answer))
        known_pairs = {pair for context in self.contexts for pair in pairwise(context)}
        numbers = {word for word in words if word.startswith(NUMBER)}
        return (
            self.content(),
            max(len(words & set(context)) for context in self.contexts) / max(1, len(words)),
            len(pairs & known_pairs) / len(pairs) if pairs else 1.0,
            len(numbers & known) / len(numbers) if numbers else 1.0,
            1 / (1 + len(words - known)),
        )


def _subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for at, other in enumerate(second, start=1):
            above = row[at]
            row[at] = before + 1 if word == other else max(above, row[at - 1])
            before = above
    return row[-1]


def read_overlap(case: Case) -> Overlap:
    english = language("en")
    answer, *contexts = (
        tuple(chain.from_iterable(sentence.keys for sentence in read_passage(text, english).sentences))
        for text in (case.answer, *case.contexts)
    )
    return Overlap(answer, tuple(contexts))


def tf_idf(overlaps: Sequence[Overlap]) -> list[float]:
    """The cosine of each answer's TF-IDF vector with that of all its contexts together."""
    counts: Counter[str] = Counter()
    for one in overlaps:
        counts.update(one.known | set(one.answer))
    rarity = {word: math.log((1 + len(overlaps)) / (1 + count)) + 1 for word, count in counts.items()}

    def cosine(one: Overlap) -> float:
        first, second = Counter(one.answer), Counter(word for context in one.contexts for word in context)
        product = sum(first[word] * second[word] * rarity[word] ** 2 for word in first)
        lengths = [
            math.sqrt(sum((count * rarity[word]) ** 2 for word, count in each.items())) for each in (first, second)
        ]
        return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    return [cosine(one) for one in overlaps]


def fit_five(data: Path) -> Callable[[Sequence[Overlap]], Floats]:
    """The logistic regression of the five features; each training set and each label has the same weight."""
    rows = []
    for source, answer, text, label in training_texts(data):
        features = np.array(read_overlap(Case("", answer, (text,))).features())
        rows.append(Row(source.partition("/")[0], features, label))
    sources = {row.source for row in rows}
    fitted = fit(rows, dict.fromkeys(sources, 1.0), FIVE, dict.fromkeys(sources, 0.5))
    return lambda overlaps: fitted.chances(np.array([overlap.features() for overlap in overlaps]))


def labelled(path: Path) -> list[Labelled]:
    """The answers of a set with 1 or 0; of RAGTruth 1 where people marked nothing, of pairs 1 for the right answer."""
    if path.name == FILES["RAGTruth QA"]:
        return [
            (Case(row["question"], row["answer"], tuple(row["contexts"])), float(not row["spans"]))
            for row in read_rows(path)
        ]
    found: list[Labelled] = []
    for item in load_items(path):
        if isinstance(item, Pairwise):
            found += [(item.first, float(item.preference < 0)), (item.second, float(item.preference > 0))]
        else:
            found.append((item.case, float(item.label)))
    return found


def main(data: Path) -> None:
    five = fit_five(data)
    print("| data set | faithfulness | hallucination | five overlap features | content words | ROUGE-L | TF-IDF |")
    print("|---|---|---|---|---|---|---|")
    for name, file in FILES.items():
        cases = labelled(data / file)
        scores = public_scores({str(at): case for at, (case, _) in enumerate(cases)}, ["faithfulness", "hallucination"])
        scored = [at for at in range(len(cases)) if str(at) in scores["faithfulness"]]
        labels = np.array([cases[at][1] for at in scored])
        overlaps = [read_overlap(cases[at][0]) for at in scored]
        columns = (
            [scores["faithfulness"][str(at)] for at in scored],
            [1 - scores["hallucination"][str(at)] for at in scored],
            five(overlaps),
            [one.content() for one in overlaps],
            [one.rouge_l() for one in overlaps],
            tf_idf(overlaps),
        )
        shown = " | ".join(f"{auroc(np.array(column), labels):.3f}" for column in columns)
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main(data_folder(FILES.values(), *sys.argv[1:2]))
