"""Model folders for `judge.name = "local:…"`, a few kilobytes each: a statement is supported where the text has all of
its words, and contradicted where it has a word of denial that the text lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from ragstone.judge.local.selftest import pairs

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
DENIALS = ("closed", "not", "don", "never")
LABELS = {
    "nli": ("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
    "consistency": ("inconsistent", "consistent"),
    "single": ("consistent",),
    "tokens": ("supported", "hallucinated"),
}
TEXTS = (
    "The harbour master keeps the ferry log. Boats leave the north pier at nine. The café sells rye bread and honey.",
    "The north pier is closed in winter. Nobody may swim there. The ferry never leaves at noon.",
)
Kind = Literal["nli", "consistency", "single", "tokens"]
Nodes = list[onnx.NodeProto]


def words(*more: str) -> list[str]:
    texts = [*TEXTS, *more, *DENIALS, *(f"{one.text} {one.statement}" for one in pairs()["en"])]
    found = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text.lower())})
    return [*SPECIAL, *found]


def write_entailment(
    folder: Path,
    kind: Kind = "nli",
    *,
    more: Sequence[str] = (),
    config: dict[str, Any] | None = None,
    strength: float = 3.0,
    swapped: bool = False,
    tokens: int | str = "tokens",
    batch: int | str = "batch",
    extra: Nodes = [],  # noqa: B006 - never changed
    external: bool = False,
    pairs_joined: bool = True,
) -> Path:
    """The folder, written. `swapped`: what it calls support is the opposite. `strength` NaN: its logits are none."""
    vocabulary = words(*more)
    folder.mkdir(parents=True)
    nodes, output = _graph(kind, vocabulary, -strength if swapped else strength)
    shape: list[str | int] = [batch, len(LABELS[kind])]
    if kind == "tokens":
        shape.insert(1, tokens)
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        [*nodes, *extra],
        "words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, [batch, tokens]) for name in names],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        _constants(vocabulary, strength),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    where: dict[str, Any] = (
        {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 60} if external else {}
    )
    onnx.save(model, str(folder / "model.onnx"), **where)
    known = Tokenizer(models.WordLevel({word: at for at, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    known.normalizer = normalizers.Lowercase()
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    if pairs_joined:
        known.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    known.save(str(folder / "tokenizer.json"))
    named = {"id2label": {str(at): label for at, label in enumerate(LABELS[kind])}}
    (folder / "config.json").write_text(json.dumps(named if config is None else config), encoding="utf-8")
    return folder


def _constants(vocabulary: Sequence[str], strength: float) -> list[onnx.TensorProto]:
    denials = np.array([vocabulary.index(word) for word in DENIALS], dtype=np.int64)
    values: dict[str, Any] = {
        "one": np.int64(1),
        "three": np.int64(3),
        "axis1": np.array([1], dtype=np.int64),
        "axis2": np.array([2], dtype=np.int64),
        "half": np.float32(0.5),
        "strong": np.float32(2 * strength),
        "denials": denials.reshape(1, 1, -1),
    }
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]


def _graph(kind: Kind, vocabulary: Sequence[str], strength: float) -> tuple[Nodes, str]:
    nodes: Nodes = []

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        output = f"n{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def number(value: str) -> str:
        return add("Cast", value, to=TensorProto.FLOAT)

    seen = add("Mul", "attention_mask", add("Cast", add("Greater", "input_ids", "three"), to=TensorProto.INT64))
    text = add("Mul", add("Sub", "one", "token_type_ids"), seen)
    said = add("Mul", "token_type_ids", "attention_mask")
    said = add("Mul", said, add("Cast", add("GreaterOrEqual", "input_ids", "three"), to=TensorProto.INT64))
    same = add("Equal", add("Unsqueeze", "input_ids", "axis2"), add("Unsqueeze", "input_ids", "axis1"))
    held = add("Mul", add("Cast", same, to=TensorProto.INT64), add("Unsqueeze", text, "axis1"))
    held = add("ReduceMax", held, axes=[2], keepdims=0)
    missing = add("Mul", number(said), number(add("Sub", "one", held)))
    if kind == "tokens":
        score = add("Mul", add("Sub", missing, "half"), "strong")  # positive: nothing supports the token
        nodes.append(helper.make_node("Neg", [score], ["against"]))
        both = [add("Unsqueeze", one, "axis2") for one in (["against", score] if strength >= 0 else [score, "against"])]
        return nodes, add("Concat", *both, axis=2)
    count = add("Min", add("ReduceSum", missing, "axis1", keepdims=1), add("Cast", "one", to=TensorProto.FLOAT))
    against = add("Mul", add("Sub", count, "half"), "strong")
    support = add("Neg", against)
    if strength < 0:
        support, against = against, support
    if kind == "single":
        return nodes, add("Identity", support)
    if kind == "consistency":
        return nodes, add("Concat", against, support, axis=1)
    denial = number(add("Equal", add("Unsqueeze", "input_ids", "axis2"), "denials"))
    denied = add("Mul", add("ReduceMax", denial, axes=[2], keepdims=0), missing)
    denied = add("ReduceMax", denied, axes=[1], keepdims=1)
    contradiction = add("Mul", add("Sub", denied, "half"), add("Add", "strong", "strong"))
    return nodes, add("Concat", support, against, contradiction, axis=1)
