"""The names in the settings `judge.name` and `judge.embeddings`."""

from __future__ import annotations

from pathlib import Path

from ragstone.errors import ConfigError, suggestion

PROVIDERS = ("offline", "local", "openai", "anthropic", "openai-compatible", "bedrock", "vertex", "scripted")
OFFLINE_PROVIDERS = ("offline", "local")
"""Judges that use no language model. The default rules don't block on metrics that they judge unreliably."""

_EXAMPLES = {
    "local": "local:models/nli",
    "openai": "openai:gpt-5.4-mini",
    "anthropic": "anthropic:claude-haiku-4-5",
    "openai-compatible": "openai-compatible:MODEL",
    "bedrock": "bedrock:MODEL",
    "vertex": "vertex:MODEL",
    "scripted": "scripted:judgements.json",
}
LOCAL = "local:"


def local_path(embeddings: str | None) -> Path | None:
    """The folder in ``local:FOLDER``, None for any other name. Raises ConfigError if the folder is missing."""
    if embeddings is None or not embeddings.startswith(LOCAL):
        return None
    folder = embeddings.removeprefix(LOCAL).strip()
    if not folder:
        raise ConfigError(
            f"'{embeddings}' names no folder.",
            where="judge.embeddings",
            hint="Write for example 'local:models/minilm'.",
        )
    return Path(folder)


def judge_label(provider: str, model: str, version: str) -> str:
    """A short name for reports, such as ``openai gpt-x`` or ``offline judge 2``."""
    if provider == "offline":
        return f"offline judge {version}"
    return f"local model {model}" if provider == "local" else f"{provider} {model}"


def split_name(name: str) -> tuple[str, str]:
    """`openai:gpt-x` as ("openai", "gpt-x"), `offline` as ("offline", ""). Raises ConfigError with a suggestion."""
    provider, colon, model = name.strip().partition(":")
    model = model.strip()
    if provider not in PROVIDERS:
        raise ConfigError(f"unknown judge '{name}'.", where="judge.name", hint=suggestion(provider, PROVIDERS))
    if provider == "offline":
        if colon:
            raise ConfigError(
                f"the offline judge has no model, found '{name}'.", where="judge.name", hint="Use 'offline'."
            )
        return provider, ""
    if not model:
        what = {"scripted": "file", "local": "folder"}.get(provider, "model")
        raise ConfigError(
            f"judge '{name}' names no {what}.", where="judge.name", hint=f"Write for example '{_EXAMPLES[provider]}'."
        )
    return provider, model
