"""Sentence similarity by a local ONNX model."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragstone.errors import ConfigError
from ragstone.judge.local.folder import WHERE, ModelFolder, Pooling, read_folder
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.similarity import cosines
from ragstone.judge.untrusted_text import cleaned

_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_TYPES = {"tensor(int64)": "<i8", "tensor(int32)": "<i4"}


class LocalSimilarity:
    """Cosine of a local model's embeddings; free of cost.

    Texts go through the model one at a time, on one thread each: with padding, or in a quantised model, a vector would
    depend on the texts that happen to share its batch. Raises ConfigError for a folder that is no such model, or where
    the extra is missing.
    """

    def __init__(self, path: Path) -> None:
        runtime, tokenizers = _extra("onnxruntime"), _extra("tokenizers")
        self._folder = read_folder(path)
        self._tokenizer = _tokenizer(tokenizers, self._folder)
        self._session = _session(runtime, self._folder)
        self._inputs = {found.name: _dtype(found, self._folder) for found in self._session.get_inputs()}
        self._output, self._pooled = _output(self._session.get_outputs(), self._folder)

    @property
    def label(self) -> str:
        return f"local {self._folder.name} sha256:{self._folder.digest[:16]}"

    async def similarities(self, question: str, others: Sequence[str], *, call: Call) -> tuple[float, ...]:  # noqa: ARG002
        texts = [cleaned(text).strip() or "?" for text in (question, *others)]
        return cosines(await asyncio.to_thread(self._embed_all, texts))

    async def close(self) -> None:
        return None

    def _embed_all(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> np.ndarray:
        encoded = self._tokenizer.encode(text.lower() if self._folder.lower_case else text)
        values = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        feed = {name: np.asarray([values[name]], dtype=kind) for name, kind in self._inputs.items()}
        if not encoded.ids:
            raise JudgementFailed("the embedding model finds no token in the text")
        try:
            found = np.asarray(self._session.run([self._output], feed)[0][0], dtype=np.float64)
        except Exception as error:  # the runtime's own classes share no base
            raise JudgementFailed(f"the embedding model failed: {_line(error)}") from None
        if found.ndim != (1 if self._pooled else 2) or not found.size or not np.isfinite(found).all():
            raise JudgementFailed("the embedding model gave no vector of numbers")
        return found if self._pooled else _pool(found, self._folder.pooling)


def _pool(tokens: np.ndarray, pooling: Pooling) -> np.ndarray:
    """One vector from those of the tokens, (tokens, width); there is no padding to leave out."""
    if pooling == "cls":
        return np.asarray(tokens[0])
    return np.asarray(tokens.max(axis=0) if pooling == "max" else tokens.mean(axis=0))


def _extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"a local embedding model needs the package '{name}', which is not installed.",
            where=WHERE,
            hint="Install the extra: pip install 'ragstone[local]'.",
        ) from None


def _tokenizer(tokenizers: Any, folder: ModelFolder) -> Any:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=folder.max_tokens)
    except Exception:  # the library raises bare Exception, and its messages quote the file
        raise _unusable(folder.tokenizer, "it is no tokenizer of the tokenizers library") from None
    return tokenizer


def _session(runtime: Any, folder: ModelFolder) -> Any:
    # The runtime reports use to its maker on Windows, unless told not to.
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(str(folder.model), sess_options=options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's own classes share no base
        raise _unusable(folder.model, _line(error)) from None


def _dtype(found: Any, folder: ModelFolder) -> str:
    if found.name not in _INPUTS or found.type not in _TYPES:
        raise ConfigError(
            f"the model wants the input '{found.name}' ({found.type}), which no tokenizer gives.",
            where=str(folder.model),
            hint=f"Take an ONNX export of a text encoder; known inputs: {', '.join(sorted(_INPUTS))}.",
        )
    return _TYPES[found.type]


def _output(outputs: Sequence[Any], folder: ModelFolder) -> tuple[str, bool]:
    """The name of the output to use, and whether it is pooled already. Vectors of tokens are (1, tokens, width)."""
    by_rank = {len(found.shape or ()): found.name for found in reversed(outputs)}
    for rank, pooled in ((3, False), (2, True)):
        if rank in by_rank:
            return by_rank[rank], pooled
    raise ConfigError("the model gives neither vectors of tokens nor of texts.", where=str(folder.model))


def _unusable(file: Path, reason: str) -> ConfigError:
    return ConfigError(f"can't be loaded: {reason}", where=str(file), hint="Check that the file is whole.")


def _line(error: Exception) -> str:
    return " ".join(cleaned(str(error)).split())[:300]
