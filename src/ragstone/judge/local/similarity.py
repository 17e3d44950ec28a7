"""Sentence similarity by a local ONNX model."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np

from ragstone.config.settings import Device
from ragstone.errors import ConfigError
from ragstone.judge.local.files import ModelFiles, ModelFolder
from ragstone.judge.local.runtime import encode, input_types, load_session, load_tokenizer, run
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.similarity import cosines
from ragstone.judge.untrusted_text import cleaned

Pooling = Literal["mean", "cls", "max"]

_MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """How a text is prepared for the model, and how the vectors of its tokens are pooled."""

    pooling: Pooling
    max_tokens: int
    lower_case: bool


def read_embedding_config(folder: ModelFolder) -> EmbeddingConfig:
    """How the model in `folder` makes the vector of a text.

    Without modules.json, vectors are the mean over the tokens. Normalize modules need no work: only the cosine is used.
    Raises ConfigError for a model with steps that Ragstone does not support.
    """
    text = folder.config("sentence_bert_config.json")
    limit = text.get("max_seq_length")
    max_tokens = limit if isinstance(limit, int) and 0 < limit <= _MAX_TOKENS else _MAX_TOKENS
    name = "config_sentence_transformers.json"
    if folder.config(name).get("default_prompt_name"):
        raise ConfigError(
            "the model puts a prompt before each text, which is not supported.",
            where=str(folder.path / name),
            hint="Take a model without default_prompt_name.",
        )
    return EmbeddingConfig(_pooling(folder), max_tokens, text.get("do_lower_case") is True)


def _pooling(folder: ModelFolder) -> Pooling:
    place = "1_Pooling"
    for module in _modules(folder):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            place = str(module.get("path", place))
        elif kind not in ("Transformer", "Normalize"):
            raise ConfigError(
                f"the model has a '{kind}' step, which is not supported.",
                where=str(folder.path / "modules.json"),
                hint="Take a model of a transformer, pooling and normalisation only.",
            )
    name = f"{place}/config.json"
    if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        raise ConfigError(f"the path '{place[:200]}' leads out.", where=str(folder.path / "modules.json"))
    config = folder.config(name)
    named = config.get("pooling_mode")
    on = [named] if isinstance(named, str) else [key for key, value in config.items() if value is True]
    bare = (key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for key in on)
    modes = [mode for mode in bare if mode != "include_prompt"] or ["mean"]
    for known in get_args(Pooling):
        if modes == [known]:
            return known  # type: ignore[no-any-return]
    raise ConfigError(
        f"the pooling {', '.join(modes)} is not supported.",
        where=str(folder.path / name),
        hint="Supported: mean, cls or max, alone.",
    )


def _modules(folder: ModelFolder) -> list[dict[str, object]]:
    found = folder.document("modules.json")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(module, dict) for module in found):
        raise ConfigError("must hold a list of modules.", where=str(folder.path / "modules.json"))
    return found


WHERE = "judge.embeddings"
_MAX_VECTORS = 2048


class LocalSimilarity:
    """Cosine of a local model's embeddings; free of charge.

    Texts are run one at a time, on one thread each: with padding, or in a quantised model, a vector would depend on the
    other texts in its batch. The vectors of recent texts are cached, since contexts recur. Raises ConfigError for a
    folder without such a model, a digest that is not among `digests` (if there are any), or a missing extra.
    """

    def __init__(
        self, path: Path, *, within: Path | None = None, digests: Collection[str] = (), device: Device = "cpu"
    ) -> None:
        folder = ModelFolder(path, where=WHERE, within=within)
        files = folder.model()
        self._config = read_embedding_config(folder)
        folder.require_digest(digests)
        self.label = f"local {folder.name} sha256:{folder.digest}{'' if device == 'cpu' else f' on {device}'}"
        self._tokenizer = load_tokenizer(folder, files)
        self._tokenizer.enable_truncation(max_length=self._config.max_tokens)
        self._session = load_session(folder, files, device=device)
        self._inputs = input_types(self._session, files)
        self._output, self._pooled = _output(self._session.get_outputs(), files)
        self._vector = lru_cache(maxsize=_MAX_VECTORS)(self._embed)

    async def similarities(self, question: str, others: Sequence[str], *, call: Call) -> tuple[float, ...]:  # noqa: ARG002
        texts = [cleaned(text).strip() or "?" for text in (question, *others)]
        return cosines(await asyncio.to_thread(lambda: np.stack([self._vector(text) for text in texts])))

    async def close(self) -> None:
        return None

    def _embed(self, text: str) -> np.ndarray:
        try:
            encoded = encode(self._tokenizer, text.lower() if self._config.lower_case else text)
        except ValueError as error:
            raise JudgementFailed(f"the embedding model can't read the text: {error}") from None
        values = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        feed = {name: np.asarray([values[name]], dtype=kind) for name, kind in self._inputs.items()}
        if not encoded.ids:
            raise JudgementFailed("the embedding model finds no token in the text")
        try:
            found = run(self._session, self._output, feed)[0]
        except ValueError as error:
            raise JudgementFailed(f"the embedding model failed: {error}") from None
        if found.ndim != (1 if self._pooled else 2) or not found.size or not np.isfinite(found).all():
            raise JudgementFailed("the embedding model returned no vector of numbers")
        return found if self._pooled else _pool(found, self._config.pooling)


def _pool(tokens: np.ndarray, pooling: Pooling) -> np.ndarray:
    """One vector from those of the tokens, (tokens, width); there is no padding to exclude."""
    if pooling == "cls":
        return np.asarray(tokens[0])
    return np.asarray(tokens.max(axis=0) if pooling == "max" else tokens.mean(axis=0))


def _output(outputs: Sequence[Any], files: ModelFiles) -> tuple[str, bool]:
    """The name of the output to use, and whether it is already pooled. Token vectors are (1, tokens, width)."""
    by_rank = {len(found.shape or ()): found.name for found in reversed(outputs)}
    for rank, pooled in ((3, False), (2, True)):
        if rank in by_rank:
            return by_rank[rank], pooled
    raise ConfigError("the model gives neither vectors of tokens nor of texts.", where=str(files.file))
