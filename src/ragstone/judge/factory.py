"""Builds the judge that the settings name.

SDKs are imported only for the judge that needs them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import Judge, Surroundings, TellSecret, ignore_secret
from ragstone.judge.providers import Environ
from ragstone.settings.settings import JudgeSettings

Builder = Callable[[str, JudgeSettings, Surroundings], Judge]
"""Builds a provider's judge. The first argument is the model or the file in its name;
empty if it names none."""


def build_judge(
    settings: JudgeSettings,
    *,
    golden_set: GoldenSet,
    cache: Path | None,
    environ: Environ,
    tell_secret: TellSecret = ignore_secret,
    within: Path | None = None,
) -> Judge:
    """The judge called `settings.name`, not yet connected to anything.

    The other arguments are those of `Surroundings`. Raises ConfigError for an unknown
    name, a missing key or address, embeddings that the judge can't use, and settings
    that it can't meet, such as a budget without a known price.
    """
    _, model_or_file = split_name(settings.name)
    build: Builder = pkgutil.resolve_name(provider_of(settings.name).build)
    surroundings = Surroundings(
        golden_set=golden_set,
        cache=cache,
        environ=environ,
        tell_secret=tell_secret,
        within=within,
    )
    return build(model_or_file, settings, surroundings)


def build_llm(
    _model: str, settings: JudgeSettings, surroundings: Surroundings
) -> Judge:
    from ragstone.judge.llm.assembly import assemble

    return assemble(settings, surroundings)


def build_scripted(
    file: str, settings: JudgeSettings, surroundings: Surroundings
) -> Judge:
    from ragstone.judge.scripted import read_script

    return read_script(
        Path(file), concurrency=settings.concurrency, within=surroundings.within
    )


def build_fitted(
    file: str, settings: JudgeSettings, surroundings: Surroundings
) -> Judge:
    from ragstone.judge.fitted import FittedJudge, read_fitted

    path = Path(file)
    fitted, digest = read_fitted(
        path, within=surroundings.within, digests=settings.model_digests
    )
    _check_no_embeddings(settings)
    return FittedJudge(path.name, fitted, digest)


def build_offline(
    _empty: str, settings: JudgeSettings, _surroundings: Surroundings
) -> Judge:
    from ragstone.judge.offline import OfflineJudge

    _check_no_embeddings(settings)
    return OfflineJudge()


def _check_no_embeddings(settings: JudgeSettings) -> None:
    """Raise ConfigError if the settings name embeddings."""
    if settings.embeddings is not None:
        raise ConfigError(
            f"the judge '{settings.name}' compares words and can't use the embeddings '{settings.embeddings}'.",
            where="judge.embeddings",
            hint="Leave the setting out, or choose a judge that uses a language model.",
        )
