"""The files of a model folder: each is read once, within limits, and the digest covers exactly what was read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular

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
    messages = list(_within(model))
    if not any(message.DESCRIPTOR.name == "Graph" for message in messages):
        raise ValueError("it contains no graph")
    entries = (message for message in messages if message.DESCRIPTOR.name == "Entry")
    return OnnxFacts(
        tuple(sorted({entry.value.decode("utf-8") for entry in entries if entry.key == b"location"})),
        any(message.op_type in _QUANTISED for message in messages if message.DESCRIPTOR.name == "Node"),
    )


def _within(message: Any) -> Iterator[Any]:
    """All messages in `message`."""
    for field, values in message.ListFields():
        for found in values if field.message_type is not None else ():
            yield found
            yield from _within(found)


@cache
def _model_type() -> Any:
    """The part of ONNX's messages, in onnx.json, that leads to operators and to the places of weights."""
    from google.protobuf import descriptor_pool, json_format, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    pool = descriptor_pool.DescriptorPool()
    text = files(__package__).joinpath("onnx.json").read_text(encoding="utf-8")
    pool.Add(json_format.Parse(text, FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_names.Model"))


MAX_WEIGHT_BYTES = 3 * 1024**3
"""Limit for a model and its external weights together."""

_MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_MAX_TOKENIZER_BYTES = 64 * 1024**2
_MAX_CONFIG_BYTES = 1_000_000
_LAYOUT = "It must hold tokenizer.json and model.onnx (or onnx/model.onnx, or model_quantized.onnx in either place)."


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model in memory. `weights` are the contents of its external weight files."""

    file: Path
    model: bytes
    tokenizer: bytes
    weights: Mapping[str, bytes]
    quantised: bool


class ModelFolder:
    """A user's folder with a model. `where` is the setting that names it, for errors.

    Files are read into memory, so that later changes in the folder have no effect. With `within`, each must lie below
    that folder after following links. Methods raise ConfigError.
    """

    def __init__(self, path: Path, *, where: str, within: Path | None = None) -> None:
        # Checked first, so that errors reveal nothing about folders outside.
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            raise ConfigError(f"the model folder '{path}' is outside the workspace.", where=where)
        if not path.is_dir():
            what = "a file" if path.exists() else "not there"
            raise ConfigError(f"the model folder '{path}' is {what}.", where=where, hint=f"Name a folder. {_LAYOUT}")
        self.path = path
        self.where = where
        self._within = within
        self._hashes: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def digest(self) -> str:
        """SHA-256, in hex, over the names and contents of all files read so far."""
        lines = "".join(f"{name} {found}\n" for name, found in sorted(self._hashes.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    def model(self) -> ModelFiles:
        """The model with its weights and its tokenizer."""
        name = next((one for one in _MODELS if (self.path / one).is_file()), None)
        if name is None:
            raise ConfigError(f"the model folder '{self.path}' has no model.onnx.", where=self.where, hint=_LAYOUT)
        if not (self.path / "tokenizer.json").is_file():
            raise ConfigError(f"the model folder '{self.path}' has no tokenizer.json.", where=self.where, hint=_LAYOUT)
        file = self.path / name
        model = self._read(name, MAX_WEIGHT_BYTES)
        try:
            facts = read_facts(model)
        except ImportError:
            raise missing_extra("protobuf", self.where) from None
        except ValueError as error:
            raise ConfigError(
                f"can't be loaded: {error}.", where=str(file), hint="Check that the file is whole."
            ) from None
        left = MAX_WEIGHT_BYTES - len(model)
        weights = {}
        for location in facts.external:
            weights[location] = self._read(self._beside(file, location), left)
            left -= len(weights[location])
        return ModelFiles(file, model, self._read("tokenizer.json", _MAX_TOKENIZER_BYTES), weights, facts.quantised)

    def config(self, name: str) -> dict[str, object]:
        """The JSON object in the file `name`, empty if there is no such file."""
        found = self.document(name)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise ConfigError("must hold a JSON object.", where=str(self.path / name))
        return found

    def document(self, name: str) -> object:
        """The JSON document in the file `name`, None if there is no such file."""
        if not (self.path / name).is_file():
            return None
        try:
            document: object = json.loads(self._read(name, _MAX_CONFIG_BYTES).decode("utf-8"))
        except (ValueError, RecursionError):
            raise ConfigError("not valid JSON.", where=str(self.path / name)) from None
        return document

    def require_digest(self, known: Collection[str]) -> None:
        """Raise ConfigError if `known` has digests, but not that of the files read so far."""
        if known and self.digest not in {one.removeprefix("sha256:") for one in known}:
            raise ConfigError(
                f"the model in '{self.path}' has the digest sha256:{self.digest}, which judge.model_digests does not "
                "name.",
                where=self.where,
                hint="Check where its files come from; if they are the right ones, name that digest.",
            )

    def _beside(self, file: Path, location: str) -> str:
        """The path in this folder of the file that the model refers to as `location`."""
        plain = PurePosixPath(location)
        if not location or plain.is_absolute() or ".." in plain.parts or "\\" in location or ":" in location:
            raise ConfigError(
                f"the model refers to weights in '{location[:200]}', which is outside of its folder.",
                where=str(file),
                hint="Take a model that holds its weights, or has them in files beside it.",
            )
        return (file.parent.relative_to(self.path) / plain).as_posix()

    def _read(self, name: str, limit: int) -> bytes:
        with disk_errors(self.path / name):
            body = read_regular(self.path / name, limit=limit, within=self._within)
        self._hashes[name] = hashlib.sha256(body).hexdigest()
        return body


def missing_extra(package: str, where: str) -> ConfigError:
    """The error for a package of the extra `ragstone[local]` that is not installed; `where` is the setting."""
    return ConfigError(
        f"a local model needs the package '{package}', which is not installed.",
        where=where,
        hint="Install the extra: pip install 'ragstone[local]'.",
    )
