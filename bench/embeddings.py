"""The effect of embeddings on the offline judge's answer relevancy, and the best form for them.

``python bench/embeddings.py [--data FOLDER] [--model FOLDER]`` prints the tables of bench/README.md. Without a model it
makes one: word vectors (PPMI and SVD over the pages of WiCE, BEGIN and HaluEval, without CLAPNQ and WikiEval), which
are weaker than any sentence model. Forms are compared on CLAPNQ only. Takes under a minute. Needs the test group.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
from data_sets import data_folder
from judge_reliability import ROOT, answers_and_neighbours, pieces_of_pages
from local_judge import dev_pieces
from onnx import TensorProto, helper, numpy_helper
from scipy.optimize import minimize
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import svds
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from ragstone.config.settings import JudgeSettings
from ragstone.judge.factory import build_judge
from ragstone.judge.offline import OfflineJudge, relevance
from ragstone.judge.offline.meaning import MAX_SENTENCES, MeaningJudge
from ragstone.judge.offline.normal import normalise
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.sentences import split_sentences
from ragstone.system.response import Context
from ragstone.tools.judging.metaeval.command import as_golden_set, run_judge, summarise
from ragstone.tools.judging.metaeval.load import Case, EvalTask, Item, Pairwise, Pointwise, load_items
from ragstone.tools.judging.metaeval.scoring import auroc

TEXTS = {
    "wice_claim.jsonl.gz": "evidence_sentences",
    "begin.jsonl.gz": "context",
    "halueval_qa_500.jsonl.gz": "context",
}
MEANING = ROOT / "src" / "ragstone" / "judge" / "offline" / "meaning.json"
WIDTH = 128
WINDOW = 6
MIN_COUNT = 3
RARITY = 1e-3
ENOUGH = 0.4

Form = Callable[[float, float | None], float]


def _enough(value: float) -> float:
    return min(1.0, value / ENOUGH)


FORMS: dict[str, Form] = {
    "half words, half meaning (as built in)": relevance._on_topic,
    "the larger of the two": lambda shared, near: max(_enough(shared), _enough(near or 0.0)),
    "meaning alone": lambda _shared, near: _enough(near or 0.0),
    "meaning alone, without an upper limit of 0.4": lambda _shared, near: near or 0.0,
    "half each, meaning without an upper limit": lambda shared, near: (_enough(shared) + (near or 0.0)) / 2,
}


def read_texts(data: Path) -> list[list[str]]:
    """The words of each page, each page once."""
    pages: dict[str, None] = {}
    for file, field in TEXTS.items():
        with gzip.open(data / file, "rt", encoding="utf-8") as lines:
            for line in lines:
                found = json.loads(line)[field]
                pages[" ".join(found) if isinstance(found, list) else str(found)] = None
    return [re.findall(r"\w+", page.lower()) for page in pages]


def word_vectors(pages: Sequence[Sequence[str]]) -> tuple[list[str], np.ndarray]:
    """Words and their vectors, (words, WIDTH), rare words longer than common ones, so that a mean weighs them."""
    counts = Counter(word for page in pages for word in page)
    words = [word for word, count in counts.most_common(30_000) if count >= MIN_COUNT]
    at = {word: index for index, word in enumerate(words)}
    beside: Counter[tuple[int, int]] = Counter()
    for page in pages:
        known = [at[word] for word in page if word in at]
        for start, one in enumerate(known):
            for other in known[start + 1 : start + 1 + WINDOW]:
                beside[one, other] += 1
                beside[other, one] += 1
    pairs = np.array(list(beside))
    values = np.array(list(beside.values()), dtype=float)
    totals = np.bincount(pairs[:, 0], values, len(words))
    smooth = totals**0.75 / (totals**0.75).sum()
    ppmi = np.maximum(0.0, np.log(values / (totals[pairs[:, 0]] * smooth[pairs[:, 1]])))
    matrix = coo_matrix((ppmi, (pairs[:, 0], pairs[:, 1])), shape=(len(words), len(words))).tocsr()
    left, sizes, _ = svds(matrix, k=WIDTH, random_state=0)
    vectors = left * np.sqrt(sizes)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    share = np.array([counts[word] for word in words]) / counts.total()
    return words, vectors * (RARITY / (RARITY + share))[:, None]


def save_model(folder: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """Save as ONNX with a tokenizer. An unknown word has almost no weight."""
    table = np.vstack([np.full((1, WIDTH), 1e-4), vectors]).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])],
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "tokens", WIDTH])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    known = {"[UNK]": 0} | {word: index for index, word in enumerate(words, start=1)}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def answers_and_others(pairs: Sequence[Item]) -> tuple[Item, ...]:
    """Easy pairs from the same answers: against the answer to another question, drawn with a fixed seed."""
    draw = random.Random(0)
    found = []
    for pair in pairs:
        assert isinstance(pair, Pairwise)
        other = draw.choice([one for one in pairs if one.group != pair.group])
        assert isinstance(other, Pairwise)
        second = Case(pair.first.question, other.first.answer)
        found.append(Pairwise(pair.id, pair.task, pair.first, second, -1.0, pair.group))
    return tuple(found)


def accuracy(items: Sequence[Item], embeddings: str | None, form: Form | None = None) -> str:
    """Pairwise accuracy with its interval, as a cell of a table."""
    settings = JudgeSettings(embeddings=embeddings)
    judge = build_judge(settings, golden_set=as_golden_set(items), cache=None, environ={})
    with patch.object(relevance, "_on_topic", form or relevance._on_topic):
        (result,) = summarise(asyncio.run(run_judge(judge, items)))
    found = result.measures["pairwise_accuracy"]
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def main(data: Path, embeddings: str) -> None:
    hard = answers_and_neighbours(data / "clapnq_dev.jsonl.gz")
    easy = answers_and_others(hard)
    wikieval = [item for item in load_items(data / "wikieval.jsonl") if item.task is EvalTask.ANSWER_RELEVANCY]
    print("| how they enter | CLAPNQ, neighbours | CLAPNQ, other answers |\n|---|---|---|")
    print(f"| not at all | {accuracy(hard, None)} | {accuracy(easy, None)} |")
    for name, form in FORMS.items():
        print(f"| {name} | {accuracy(hard, embeddings, form)} | {accuracy(easy, embeddings, form)} |")
    print("\n| WikiEval | |\n|---|---|")
    print(f"| without | {accuracy(wikieval, None)} |\n| with | {accuracy(wikieval, embeddings)} |")


def contexts(data: Path, embeddings: str) -> None:
    """The effect of embeddings on context relevance (CLAPNQ) and the use of a context (pieces of WiCE's test pages)."""
    sets = {
        "context relevance: CLAPNQ, can it be answered?": load_items(data / "clapnq_dev.jsonl.gz"),
        "context precision: pieces of WiCE's pages (test)": pieces_of_pages(data / "wice_claim.jsonl.gz"),
    }
    print("\n| AUROC | words | words and meaning |\n|---|---|---|")
    for name, items in sets.items():
        cells = []
        for model in (None, embeddings):
            settings = JudgeSettings(embeddings=model)
            judge = build_judge(settings, golden_set=as_golden_set(items), cache=None, environ={})
            (result,) = summarise(asyncio.run(run_judge(judge, items)))
            found = result.measures["auroc"]
            cells.append(f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def weights(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Non-negative weights of words and meaning, and a bias, with both classes weighted equally."""
    share = np.where(labels > 0, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
    signs = 1 - 2 * labels

    def loss(point: np.ndarray) -> float:
        margins = signs * (rows @ point[:-1] + point[-1])
        return float((share * np.logaddexp(0, margins)).sum() + (point[:-1] ** 2).sum() / 2)

    return np.asarray(minimize(loss, [0.5, 0.5, 0.0], bounds=[(0, None)] * 2 + [(None, None)]).x)


async def fit(data: Path, embeddings: str) -> None:
    """Fit meaning.json: relevance to CLAPNQ (no other set has passages that don't answer), use to WiCE's dev pages."""
    items = [item for item in load_items(data / "clapnq_dev.jsonl.gz") if isinstance(item, Pointwise)]
    judge = build_judge(JudgeSettings(embeddings=embeddings), golden_set=as_golden_set(items), cache=None, environ={})
    assert isinstance(judge, MeaningJudge)
    call = Call("fit")
    rows, labels, half = [], [], []
    for item in items:
        try:
            words = await OfflineJudge.context_relevance(judge, item.case.question, _contexts(item), call=call)
        except JudgementFailed:
            continue
        near = await judge._to_question(item.case.question, item.case.contexts[0], call)
        rows.append((words.probability, near))
        labels.append(item.label)
        half.append(zlib.crc32(item.group.encode()) % 2)
    x, y, at = np.array(rows), np.array(labels), np.array(half)
    for one in (0, 1):
        found = weights(x[at != one], y[at != one])
        scores = (x[at == one] @ found[:-1], x[at == one, 0], x[at == one, 1])
        shown = ", ".join(f"{auroc(score, y[at == one]):.3f}" for score in scores)
        print(f"CLAPNQ, half {one}, fitted to the other: AUROC of both, words, meaning: {shown}")
    parts = {"relevance": weights(x, y), "use": await _fit_use(data, judge)}
    document: dict[str, object] = {"version": json.loads(MEANING.read_text(encoding="utf-8"))["version"]}
    for name, (words_weight, meaning, bias) in parts.items():
        document[name] = {"bias": round(bias, 2), "words": round(words_weight, 2), "meaning": round(meaning, 2)}
    MEANING.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))


async def _fit_use(data: Path, judge: MeaningJudge) -> np.ndarray:
    call = Call("fit")
    rows, labels = [], []
    for label, claim, text in dev_pieces(data):
        words = await OfflineJudge.context_use(judge, "", claim, "", [Context(text)], call=call)
        near = await judge._near.nearnesses(claim, split_sentences(normalise(text), "en")[:MAX_SENTENCES], call=call)
        rows.append((words.contexts[0].probability, max(near)))
        labels.append(label)
    return weights(np.array(rows), np.array(labels))


def _contexts(item: Pointwise) -> list[Context]:
    return [Context(text) for text in item.case.contexts]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit meaning.json to the model first")
    given = parser.parse_args()
    data = data_folder((*TEXTS, "clapnq_dev.jsonl.gz", "wikieval.jsonl"), given.data)
    with tempfile.TemporaryDirectory() as made:
        if given.model is None:
            save_model(Path(made), *word_vectors(read_texts(data)))
        named = f"local:{given.model or made}"
        if given.fit:
            asyncio.run(fit(data, named))
        contexts(data, named)
        main(data, named)
