"""Builds the judge that the settings name. SDKs and models are imported only for the judge that needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ragstone.config import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.names import local_path, split_name
from ragstone.judge.protocol import Judge

if TYPE_CHECKING:
    from ragstone.judge.offline import OfflineJudge
    from ragstone.judge.offline.rarity import Rarity
    from ragstone.judge.offline.topic import Topic


def build_judge(
    settings: JudgeSettings,
    *,
    golden_set: GoldenSet,
    cache: Path | None,
    environ: Mapping[str, str],
    tell_secret: Callable[[str], None] | None = None,
    within: Path | None = None,
    rarity: Rarity | None = None,
) -> Judge:
    """The judge called `settings.name`, not yet connected to anything.

    `cache` is the path of judgements.sqlite, None for no cache; the offline and the scripted judge need none. `environ`
    is read for keys, identities and base addresses only; `tell_secret` is called with each token obtained for this run.
    A script and a local model must lie below `within`. `rarity` are the weights of the words in the golden set, if the
    offline judge need not compute them. Raises ConfigError for an unknown name, a missing key or base
    URL, embeddings that the judge can't use, and settings that it can't honour (a budget without a known price).
    """
    provider, model = split_name(settings.name)
    if provider == "offline":
        return _offline(settings, golden_set, environ, within, rarity)
    if provider == "local":
        return _local(settings, Path(model), golden_set, environ, within, rarity)
    if provider == "scripted":
        from ragstone.judge.scripted import read_script

        return read_script(Path(model), concurrency=settings.concurrency, within=within)
    from ragstone.judge.llm.assembly import assemble

    return assemble(
        settings,
        provider=provider,
        model=model,
        golden_set=golden_set,
        cache=cache,
        environ=environ,
        tell_secret=tell_secret,
        within=within,
    )


def _local(
    settings: JudgeSettings,
    path: Path,
    golden_set: GoldenSet,
    environ: Mapping[str, str],
    within: Path | None,
    rarity: Rarity | None,
) -> Judge:
    from ragstone.judge.local.checker import Checker
    from ragstone.judge.local.judge import LocalJudge
    from ragstone.judge.local.selftest import require_sense

    checker = Checker(path, settings.local, within=within, digests=settings.model_digests)
    require_sense(checker, settings.local.language)
    return LocalJudge(checker, _offline(settings, golden_set, environ, within, rarity), settings.local)


def _offline(
    settings: JudgeSettings,
    golden_set: GoldenSet,
    environ: Mapping[str, str],
    within: Path | None,
    rarity: Rarity | None,
) -> OfflineJudge:
    from ragstone.judge.offline import OfflineJudge

    topic, endpoint = _topic(settings, environ, within)
    questions = (sample.question for sample in golden_set)
    references = (reference for sample in golden_set for reference in sample.references if reference)
    if topic is None or endpoint is not None:
        # An endpoint is used for answers only: otherwise each sentence of each context would cost money.
        return OfflineJudge(questions, references, topic=topic, endpoint=endpoint, rarity=rarity)
    from ragstone.judge.offline.meaning import MeaningJudge

    return MeaningJudge(questions, references, topic=topic, rarity=rarity)


def _topic(settings: JudgeSettings, environ: Mapping[str, str], within: Path | None) -> tuple[Topic | None, str | None]:
    """The offline judge's embedding comparison of question and answer, and the endpoint that it uses."""
    if settings.embeddings is None:
        return None, None
    from ragstone.judge.offline.topic import Topic

    local = local_path(settings.embeddings)
    if local is not None:
        from ragstone.judge.local.similarity import LocalSimilarity

        device = settings.local.device
        return Topic(LocalSimilarity(local, within=within, digests=settings.model_digests, device=device)), None
    service, _, model = settings.embeddings.partition(":")
    if service != "openai-compatible" or not model:
        raise ConfigError(
            f"'{settings.embeddings}' names no embeddings that the offline judge can use.",
            where="judge.embeddings",
            hint="Write 'local:FOLDER', or 'openai-compatible:MODEL' and set judge.embeddings_base_url, or leave it "
            "out.",
        )
    from ragstone.judge.llm.assembly import endpoint_similarity

    similarity, closers, endpoint = endpoint_similarity(settings, model, environ)
    return Topic(similarity, closers), endpoint
