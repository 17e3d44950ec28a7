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
"""Builds a provider's judge from what follows the colon in its name."""


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

    `cache` is the path of judgements.sqlite, None for no cache; the offline and the
    scripted judge need none. `environ` is read for keys, identities and base addresses
    only; `tell_secret` is called with each token obtained for this run. A script and a
    fitted judge must lie below `within`. Raises ConfigError for an unknown name, a
    missing key or base URL, embeddings that the judge can't use, and settings that it
    can't honour (a budget without a known price).
    """
    _, model = split_name(settings.name)
    make: Builder = pkgutil.resolve_name(provider_of(settings.name).build)
    return make(
        model,
        settings,
        Surroundings(
            golden_set,
            cache,
            environ,
            tell_secret,
            within,
        ),
    )


def build_llm(_: str, settings: JudgeSettings, surroundings: Surroundings) -> Judge:
    from ragstone.judge.llm.assembly import assemble

    return assemble(settings, surroundings)


def build_scripted(
    model: str, settings: JudgeSettings, surroundings: Surroundings
) -> Judge:
    from ragstone.judge.scripted import read_script

    return read_script(
        Path(model), concurrency=settings.concurrency, within=surroundings.within
    )


def build_fitted(
    model: str, settings: JudgeSettings, surroundings: Surroundings
) -> Judge:
    from ragstone.judge.fitted import FittedJudge, read_fitted

    path = Path(model)
    fitted, digest = read_fitted(
        path, within=surroundings.within, digests=settings.model_digests
    )
    _check_no_embeddings(settings)
    return FittedJudge(path.name, fitted, digest)


def build_offline(
    _: str, settings: JudgeSettings, _surroundings: Surroundings
) -> Judge:
    from ragstone.judge.offline import OfflineJudge

    _check_no_embeddings(settings)
    return OfflineJudge()


def _check_no_embeddings(settings: JudgeSettings) -> None:
    if settings.embeddings is not None:
        raise ConfigError(
            f"the {settings.name} judge compares words, found '{settings.embeddings}'.",
            where="judge.embeddings",
            hint="Leave it out, or choose a judge that asks a language model.",
        )
