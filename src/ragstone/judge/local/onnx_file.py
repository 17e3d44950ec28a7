"""Reads facts from an ONNX file without the `onnx` package, before a runtime sees it.

Only lengths and a few names are read, so this takes milliseconds for gigabytes of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# onnx.proto3: the fields of each message whose messages lead to operators or tensors.
_INNER: Final = {
    ("model", 7): "graph",
    ("model", 20): "training",
    ("model", 25): "function",
    ("training", 1): "graph",
    ("training", 2): "graph",
    ("graph", 1): "node",
    ("graph", 5): "tensor",
    ("graph", 15): "sparse",
    ("function", 7): "node",
    ("function", 11): "attribute",
    ("node", 5): "attribute",
    ("attribute", 5): "tensor",
    ("attribute", 6): "graph",
    ("attribute", 10): "tensor",
    ("attribute", 11): "graph",
    ("attribute", 22): "sparse",
    ("attribute", 23): "sparse",
    ("sparse", 1): "tensor",
    ("sparse", 2): "tensor",
    ("tensor", 13): "entry",
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_QUANTISED = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"})


@dataclass(frozen=True, slots=True)
class OnnxFacts:
    """`external` are the weight files that the model names; `quantised`: quantised at run time, over the batch."""

    external: tuple[str, ...]
    quantised: bool


def read_facts(body: bytes) -> OnnxFacts:
    """The facts of the model `body`. Raises ValueError if it is not an ONNX model."""
    external: dict[str, None] = {}
    quantised = has_graph = False
    waiting: list[tuple[str, memoryview]] = [("model", memoryview(body))]
    while waiting:
        kind, part = waiting.pop()
        if kind == "entry":
            key, location = _entry(part)
            if key == "location":
                external[location] = None
            continue
        for field, value in _fields(part):
            if kind == "node" and field == 4:
                quantised = quantised or bytes(value).decode("utf-8", "replace") in _QUANTISED
            elif (inner := _INNER.get((kind, field))) is not None:
                has_graph = has_graph or inner == "graph"
                waiting.append((inner, value))
    if not has_graph:
        raise ValueError("it holds no graph")
    return OnnxFacts(tuple(sorted(external)), quantised)


def _entry(part: memoryview) -> tuple[str, str]:
    found = {field: bytes(value).decode("utf-8") for field, value in _fields(part)}
    return found.get(1, ""), found.get(2, "")


def _fields(part: memoryview) -> list[tuple[int, memoryview]]:
    """The length-delimited fields of one message, by number. Raises ValueError if it is not a message."""
    found = []
    at, end = 0, len(part)
    while at < end:
        tag, at = _varint(part, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(part, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        elif kind == _BYTES:
            size, at = _varint(part, at)
            if size > end - at:
                raise ValueError("it is cut off")
            found.append((tag >> 3, part[at : at + size]))
            at += size
        else:
            raise ValueError("it is no ONNX model")
    if at > end:
        raise ValueError("it is cut off")
    return found


def _varint(part: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(part):
            raise ValueError("it is cut off")
        byte = part[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("it is no ONNX model")
