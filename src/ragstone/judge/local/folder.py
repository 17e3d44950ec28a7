"""A model folder in the layout of sentence-transformers: which files it has, and how its vectors are made."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ragstone.errors import ConfigError

WHERE = "judge.embeddings"
Pooling = Literal["mean", "cls", "max"]

_MODELS = ("model.onnx", "onnx/model.onnx")
_LAYOUT = "It must hold tokenizer.json and model.onnx (or onnx/model.onnx), as sentence-transformers saves them."
_MOST_TOKENS = 512
_LARGEST_CONFIG = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What is needed to embed a text. `digest` is a SHA-256 over all that bears on the vectors."""

    name: str
    model: Path
    tokenizer: Path
    pooling: Pooling
    max_tokens: int
    lower_case: bool
    digest: str


def read_folder(path: Path) -> ModelFolder:
    """The model in the folder `path`; its weights are read once, for the digest.

    Without modules.json, vectors are the mean over the tokens. Normalize modules need no work: only the cosine is
    used. Raises ConfigError for a folder that is missing, incomplete, or wants steps that Ragstone does not take.
    """
    if not path.is_dir():
        what = "a file" if path.exists() else "not there"
        raise ConfigError(f"the model folder '{path}' is {what}.", where=WHERE, hint=f"Name a folder. {_LAYOUT}")
    model = next((path / name for name in _MODELS if (path / name).is_file()), None)
    tokenizer = path / "tokenizer.json"
    for file, name in ((model, "model.onnx"), (tokenizer, "tokenizer.json")):
        if file is None or not file.is_file():
            raise ConfigError(f"the model folder '{path}' has no {name}.", where=WHERE, hint=_LAYOUT)
    assert model is not None  # noqa: S101 - the loop has seen to it
    pooling = _pooling(path)
    text = _config(path / "sentence_bert_config.json")
    limit = text.get("max_seq_length")
    max_tokens = limit if isinstance(limit, int) and limit > 0 else _MOST_TOKENS
    lower_case = text.get("do_lower_case") is True
    _refuse_prompts(path)
    how = f"{pooling} {max_tokens} {lower_case}"
    return ModelFolder(
        path.resolve().name, model, tokenizer, pooling, max_tokens, lower_case, _digest(model, tokenizer, how)
    )


def require_within(path: Path, within: Path) -> None:
    """Raise ConfigError where the folder `path`, or any file in it, lies outside of `within`."""
    root = os.path.realpath(within)
    for place, _, names in os.walk(path):
        for found in (Path(place), *(Path(place, name) for name in names)):
            if not Path(os.path.realpath(found)).is_relative_to(root):
                raise ConfigError("it lies outside of the workspace.", where=str(found))


def _pooling(path: Path) -> Pooling:
    folder = "1_Pooling"
    for module in _modules(path / "modules.json"):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            folder = str(module.get("path", folder))
        elif kind not in ("Transformer", "Normalize"):
            raise ConfigError(
                f"the model has a '{kind}' step, which is not supported.",
                where=str(path / "modules.json"),
                hint="Take a model of a transformer, pooling and normalisation only.",
            )
    file = path / folder / "config.json"
    config = _config(file)
    named = config.get("pooling_mode")
    on = [named] if isinstance(named, str) else [key for key, value in config.items() if value is True]
    modes = [_plain(key) for key in on if key != "include_prompt"] or ["mean"]
    for known in get_args(Pooling):
        if modes == [known]:
            return known  # type: ignore[no-any-return]
    raise ConfigError(
        f"the pooling {', '.join(modes)} is not supported.", where=str(file), hint="Supported: mean, cls or max, alone."
    )


def _plain(key: str) -> str:
    """`mean` for `pooling_mode_mean_tokens`."""
    return key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")


def _refuse_prompts(path: Path) -> None:
    file = path / "config_sentence_transformers.json"
    if _config(file).get("default_prompt_name"):
        raise ConfigError(
            "the model puts a prompt before each text, which is not supported.",
            where=str(file),
            hint="Take a model without default_prompt_name.",
        )


def _modules(file: Path) -> list[dict[str, object]]:
    found = _json(file)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(module, dict) for module in found):
        raise ConfigError("must hold a list of modules.", where=str(file))
    return found


def _config(file: Path) -> dict[str, object]:
    found = _json(file)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError("must hold a JSON object.", where=str(file))
    return found


def _json(file: Path) -> object:
    """The document in `file`, None where there is no file."""
    try:
        if not file.is_file():
            return None
        if file.stat().st_size > _LARGEST_CONFIG:
            raise ConfigError("too large for a model's configuration.", where=str(file))
        document: object = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from None
    except (ValueError, RecursionError):
        raise ConfigError("not valid JSON.", where=str(file)) from None
    return document


def _digest(model: Path, tokenizer: Path, how: str) -> str:
    """Over the model with the weights that lie beside it (model.onnx_data), the tokenizer and the pooling."""
    whole = hashlib.sha256(how.encode())
    for file in (*sorted(model.parent.glob(f"{model.name}*")), tokenizer):
        if not file.is_file():
            continue
        try:
            with file.open("rb") as content:
                whole.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from None
    return whole.hexdigest()
