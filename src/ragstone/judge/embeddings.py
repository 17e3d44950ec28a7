"""What the setting `judge.embeddings` names, as far as it is the same for all judges."""

from __future__ import annotations

from pathlib import Path

from ragstone.errors import ConfigError

LOCAL = "local:"


def local_path(embeddings: str | None) -> Path | None:
    """The folder in ``local:FOLDER``, None for any other name. Raises ConfigError where no folder is named."""
    if embeddings is None or not embeddings.startswith(LOCAL):
        return None
    folder = embeddings.removeprefix(LOCAL).strip()
    if not folder:
        raise ConfigError(
            f"'{embeddings}' names no folder.",
            where="judge.embeddings",
            mend="Write for example 'local:models/minilm'.",
        )
    return Path(folder)
