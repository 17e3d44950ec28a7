"""The offline judge on changes whose effect is certain: ``python bench/judge_contrast.py [DATA_DIR]``.

Prints, all from the public faithfulness score (`ragstone.evaluate`):

- answers of one to six sentences copied from their contexts: median and lowest decile;
- for each kind of change the share that lands on its side of BASE_RATE, and how far the score moves (`contrast.py`, on
  the half of the sentences of the training contexts that the judge was not trained on);
- the same for small self-written texts in each language (`contrast_frames.py`), which need no data.

`judge_reliability.py` stores the accuracy of each language, which is what a run's report warns by.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from contrast import HARMFUL, HARMLESS, Copied, contrasts, copied_sentences
from contrast_frames import LANGUAGES, UNSEEN, cases
from data_sets import data_folder
from labelled_sets import Case
from public_scores import public_scores

from ragstone.judge.normal import normalise
from ragstone.judge.offline.support import BASE_RATE
from ragstone.judge.sentences import split_sentences

MOST = 300
COPIES = 400


def copies(sentences: Sequence[Copied]) -> dict[str, Case]:
    """Answers of one to six whole sentences of one context, in order."""
    draw = random.Random(0)
    found: dict[str, Case] = {}
    for number, one in enumerate(draw.sample(list(sentences), COPIES)):
        whole = [text for text in split_sentences(normalise(one.context), "en") if text.endswith(".")]
        size = min(len(whole), draw.randint(1, 6))
        start = draw.randint(0, len(whole) - size) if whole else 0
        found[f"copy {number}"] = Case("", " ".join(whole[start : start + size]) or one.text, (one.context,))
    return found


def by_kind(sentences: Sequence[Copied]) -> None:
    drops: list[float] = []
    for name, change in (HARMFUL | HARMLESS).items():
        pairs = contrasts(name, change, sentences, MOST)
        before = {f"{name} {at}": Case("", one.text, (one.context,)) for at, (one, _) in enumerate(pairs)}
        after = {f"{name} {at}": Case("", text, (one.context,)) for at, (one, text) in enumerate(pairs)}
        was = public_scores(before, ["faithfulness"])["faithfulness"]
        now = public_scores(after, ["faithfulness"])["faithfulness"]
        both = [key for key in was if key in now]
        moved = np.array([was[key] - now[key] for key in both])
        harmful = name in HARMFUL
        right = np.mean([(now[key] < BASE_RATE) is harmful for key in both])
        if not harmful:
            drops.extend(moved)
        kind = "harmful" if harmful else "harmless"
        print(f"| {kind} | {name} | {len(both)} | {right:.3f} | {moved.mean():.3f} | {moved.max():.3f} |")
    print(f"harmless changes together: mean {np.mean(drops):.4f}, largest {np.max(drops):.3f}")


def by_language() -> dict[str, float]:
    """The accuracy of each language: the share of changes judged right, of harmful or of harmless ones, the lower.

    On the frames that were not seen when the word lists were written, where there are such frames.
    """
    seen = _by_language(LANGUAGES, unseen=False)
    print("the same on unseen frames:")
    return seen | _by_language(tuple(UNSEEN), unseen=True)


def _by_language(languages: Sequence[str], *, unseen: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    for language in languages:
        all_cases = dict(enumerate(cases(language, unseen=unseen)))
        scores = public_scores(
            {str(key): Case("", one.statement, (one.passage,)) for key, one in all_cases.items()}, ["faithfulness"]
        )["faithfulness"]
        right: dict[tuple[bool, str], list[bool]] = {}
        for key, one in all_cases.items():
            value = scores.get(str(key))
            right.setdefault((one.supported, one.kind), []).append(
                value is not None and (value >= BASE_RATE) is one.supported
            )
        sides = {side: [np.mean(each) for (kind, _), each in right.items() if kind is side] for side in (True, False)}
        found[language] = float(min(np.mean(sides[True]), np.mean(sides[False])))
        weak = ", ".join(f"{kind} {np.mean(each):.2f}" for (_, kind), each in right.items() if np.mean(each) < 0.75)
        shown = f"{found[language]:.3f} | {np.mean(sides[False]):.3f} | {np.mean(sides[True]):.3f}"
        print(f"| {language} | {len(all_cases)} | {shown} | {weak} |")
    return found


def main(data: Path) -> None:
    sentences = [one for one in copied_sentences(data) if not one.training]
    values = np.array(list(public_scores(copies(sentences), ["faithfulness"])["faithfulness"].values()))
    print(f"copied answers: {values.size}, median {np.median(values):.3f}, decile {np.quantile(values, 0.1):.3f}")
    by_kind(sentences)
    by_language()


if __name__ == "__main__":
    main(data_folder(("begin.jsonl.gz", "wice_claim.jsonl.gz"), *sys.argv[1:2]))
