"""The layout of a sentence-transformers folder: how its model makes vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, get_args

from ragstone.errors import ConfigError
from ragstone.judge.local.files import ModelFolder

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
    _refuse_prompts(folder)
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
    modes = [_plain(key) for key in on if key != "include_prompt"] or ["mean"]
    for known in get_args(Pooling):
        if modes == [known]:
            return known  # type: ignore[no-any-return]
    raise ConfigError(
        f"the pooling {', '.join(modes)} is not supported.",
        where=str(folder.path / name),
        hint="Supported: mean, cls or max, alone.",
    )


def _plain(key: str) -> str:
    """`mean` for `pooling_mode_mean_tokens`."""
    return key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")


def _refuse_prompts(folder: ModelFolder) -> None:
    name = "config_sentence_transformers.json"
    if folder.config(name).get("default_prompt_name"):
        raise ConfigError(
            "the model puts a prompt before each text, which is not supported.",
            where=str(folder.path / name),
            hint="Take a model without default_prompt_name.",
        )


def _modules(folder: ModelFolder) -> list[dict[str, object]]:
    found = folder.document("modules.json")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(module, dict) for module in found):
        raise ConfigError("must hold a list of modules.", where=str(folder.path / "modules.json"))
    return found
