"""Reads facts from an ONNX file before a runtime sees it, with the protobuf library that ONNX Runtime brings along.

Only the fields that lead to operators and to the names of weight files are declared, as onnx.proto3 numbers them; the
weights themselves are passed over. The `onnx` package would do it too, but is 20 MB for these few names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

# The fields of each message whose messages lead to operators or tensors.
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "Model": {"Graph": (7,), "Training": (20,), "Function": (25,)},
    "Training": {"Graph": (1, 2)},
    "Graph": {"Node": (1,), "Tensor": (5,), "Sparse": (15,)},
    "Function": {"Node": (7,), "Attribute": (11,)},
    "Node": {"Attribute": (5,)},
    "Attribute": {"Tensor": (5, 10), "Graph": (6, 11), "Sparse": (22, 23)},
    "Sparse": {"Tensor": (1, 2)},
    "Tensor": {"Entry": (13,)},
    "Entry": {},
}
_OPERATOR, _KEY, _VALUE = "op_type", "key", "value"
_NAMES: Final[Mapping[str, Mapping[str, int]]] = {"Node": {_OPERATOR: 4}, "Entry": {_KEY: 1, _VALUE: 2}}
_QUANTISED = frozenset({b"DynamicQuantizeLinear", b"DynamicQuantizeMatMul", b"MatMulIntegerToFloat"})


@dataclass(frozen=True, slots=True)
class OnnxFacts:
    """`external` are the weight files that the model names; `quantised`: quantised at run time, over the batch."""

    external: tuple[str, ...]
    quantised: bool


def read_facts(body: bytes) -> OnnxFacts:
    """The facts of the model `body`. Raises ValueError if it is not an ONNX model."""
    from google.protobuf.message import DecodeError

    try:
        model = _model_type().FromString(body)
    except DecodeError:
        raise ValueError("it is truncated, or not an ONNX model") from None
    messages = list(_within(model, "Model"))
    if not any(kind == "Graph" for kind, _ in messages):
        raise ValueError("it contains no graph")
    entries = (message for kind, message in messages if kind == "Entry")
    return OnnxFacts(
        tuple(sorted({entry.value.decode("utf-8") for entry in entries if entry.key == b"location"})),
        any(message.op_type in _QUANTISED for kind, message in messages if kind == "Node"),
    )


def _within(message: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """All messages in `message`, each with its kind."""
    for inner, numbers in _MESSAGES[kind].items():
        for number in numbers:
            for found in getattr(message, f"f{number}"):
                yield inner, found
                yield from _within(found, inner)


@cache
def _model_type() -> Any:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="onnx_names.proto", package="onnx_names")
    for kind, fields in _MESSAGES.items():
        message = file.message_type.add(name=kind)
        for inner, numbers in fields.items():
            for number in numbers:
                message.field.add(
                    name=f"f{number}",
                    number=number,
                    label=Field.LABEL_REPEATED,
                    type=Field.TYPE_MESSAGE,
                    type_name=f".onnx_names.{inner}",
                )
        for name, number in _NAMES.get(kind, {}).items():
            message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL, type=Field.TYPE_BYTES)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_names.Model"))
