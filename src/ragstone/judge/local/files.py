"""The files of a model folder: each is read once, within limits, and the digest covers exactly what was read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path, PurePosixPath

from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular

_FIELDS: Mapping[str, Mapping[int, str]] = {
    kind: {int(number): name for number, name in fields.items()}
    for kind, fields in json.loads(files(__package__).joinpath("onnx.json").read_text(encoding="utf-8")).items()
}
"""The fields of ONNX's messages that lead to operators and to the places of weights: messages, and names."""

_QUANTISED = frozenset({b"DynamicQuantizeLinear", b"DynamicQuantizeMatMul", b"MatMulIntegerToFloat"})
MAX_FIELDS = 1_000_000
MAX_OPERATORS = 50_000
"""Limits for a model's fields, and for its operators once each call of a function is replaced by the function."""

_MAX_DEPTH = 100
_MAX_NAME = 4096
_NOT_A_MODEL = "it is truncated, or not an ONNX model"


@dataclass(frozen=True, slots=True)
class OnnxFacts:
    """`external` are the weight files that the model names; `quantised`: quantised at run time, over the batch."""

    external: tuple[str, ...]
    quantised: bool


def read_facts(body: bytes) -> OnnxFacts:
    """The facts of the model `body`. Raises ValueError if it is not an ONNX model, or larger than the limits."""
    found = _Messages()
    found.read(memoryview(body), "Model", (), 0)
    if () not in found.calls:
        raise ValueError("it contains no graph")
    found.check_size()
    return OnnxFacts(
        tuple(sorted({value.decode("utf-8") for value in found.locations})),
        any(operator in _QUANTISED for called in found.calls.values() for _, operator in called),
    )


class _Messages:
    """The names in a model, read without unpacking it: a few bytes of a file can stand for gigabytes of messages."""

    def __init__(self) -> None:
        self.calls: dict[tuple[bytes, ...], list[tuple[bytes, ...]]] = {}
        """The operators, each with its domain, of each function, and of the graphs of the model: ()."""
        self.locations: set[bytes] = set()
        self._left = MAX_FIELDS

    def read(self, body: memoryview, kind: str, within: tuple[bytes, ...], depth: int) -> None:
        """Take the names from the message `body`, which belongs to the function `within`."""
        if depth > _MAX_DEPTH:
            raise ValueError(_NOT_A_MODEL)
        known = _FIELDS[kind]
        fields = [(known[at], part) for at, part in self._fields(body) if at in known]
        names = {name: bytes(part[:_MAX_NAME]) for name, part in fields if name not in _FIELDS}
        operator = (names.get("domain", b"").replace(b"ai.onnx", b""), names.get("operator", b""))
        if kind == "Node":
            self.calls.setdefault(within, []).append(operator)
        elif kind in ("Graph", "Function"):
            within = within if kind == "Graph" else operator
            self.calls.setdefault(within, [])
        elif names.get("key") == b"location":
            self.locations.add(names.get("value", b""))
        for name, part in fields:
            if name in _FIELDS:
                self.read(part, name, within, depth + 1)

    def check_size(self) -> None:
        """Raise ValueError for functions that call each other in a circle, or that are too large when called."""
        sizes: dict[tuple[bytes, ...], int] = {}
        try:
            for name in TopologicalSorter(self.calls).static_order():
                sizes[name] = max(1, sum(sizes[one] for one in self.calls.get(name, ())))
        except CycleError:
            raise ValueError("its functions call each other in a circle") from None
        if max(sizes.values()) > MAX_OPERATORS:
            raise ValueError(f"with its functions, it has more than {MAX_OPERATORS:,} operators")

    def _fields(self, body: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The fields with a length of a message in protobuf's wire format."""
        at = 0
        while at < len(body):
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"it has more than {MAX_FIELDS:,} fields")
            tag, at = _varint(body, at)
            kind, size = tag & 7, {1: 8, 5: 4}.get(tag & 7, 0)
            if kind in (0, 2):
                size, at = _varint(body, at)
            if kind not in (0, 1, 2, 5) or (kind and size > len(body) - at):
                raise ValueError(_NOT_A_MODEL)
            if kind == 2:
                yield tag >> 3, body[at : at + size]
            at += size if kind else 0


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and where it ends."""
    number = 0
    for shift, byte in enumerate(body[at : at + 10]):
        number |= (byte & 127) << 7 * shift
        if byte < 128:
            return number, at + shift + 1
    raise ValueError(_NOT_A_MODEL)


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
        if not location or plain.is_absolute() or ".." in plain.parts or set(location) & set("\\:*"):
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
