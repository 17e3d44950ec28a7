"""Model folders of a few kilobytes, written with the real libraries: each word has a vector of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.judge.local.entailment import write_entailment

VECTORS = {
    "[UNK]": (0.0, 0.0, 0.1),
    "boat": (1.0, 0.0, 0.0),
    "ship": (0.9, 0.1, 0.0),
    "bread": (0.0, 1.0, 0.0),
    "nothing": (0.0, 0.0, 0.0),
}
"""Boat and ship are near each other, bread is far from both."""

MakeModel = Callable[..., Path]


def write_model(
    folder: Path,
    *,
    vectors: Mapping[str, tuple[float, ...]] = VECTORS,
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    kind: int = TensorProto.INT64,
    pooled: bool = False,
    **configs: Any,
) -> Path:
    """A folder as sentence-transformers saves it. `configs` are JSON files by name, with / written as __."""
    folder.mkdir(parents=True)
    table = numpy_helper.from_array(np.array(list(vectors.values()), dtype=np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    shape = ["batch", "tokens", table.dims[1]]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["tokens"], ["text"], axes=[1], keepdims=0))
        shape = ["batch", table.dims[1]]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(name, kind, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("text" if pooled else "tokens", TensorProto.FLOAT, shape)],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(vectors)}, unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    for name, content in configs.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    return lambda name="words", **what: write_model(tmp_path / name, **what)


@pytest.fixture
def make_entailment(tmp_path: Path) -> MakeModel:
    return lambda kind="nli", name="nli", **what: write_entailment(tmp_path / name, kind, **what)
