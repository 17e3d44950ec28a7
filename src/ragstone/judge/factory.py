"""Builds the judge that the settings name, in this process or again in another one of this machine.

SDKs and models are imported only for the judge that needs them. Another process can build the offline judge and local
models. It is sent only what they depend on: settings without secrets, and the word weights, which are computed once
from all texts of the golden set. A judge that needs a network, a key or an object of the user's stays where it is.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstone.config.settings import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.names import LOCAL, local_path, provider_of, split_name
from ragstone.judge.protocol import Judge

if TYPE_CHECKING:
    from ragstone.judge.local.judge import LocalJudge
    from ragstone.judge.offline import OfflineJudge
    from ragstone.judge.offline.rarity import Rarity
    from ragstone.judge.offline.topic import Topic


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a judge is built with besides its settings; see `build_judge`."""

    golden_set: GoldenSet
    cache: Path | None
    environ: Mapping[str, str]
    tell_secret: Callable[[str], None] | None = None
    within: Path | None = None
    rarity: Rarity | None = None


Builder = Callable[[str, JudgeSettings, Surroundings], Judge]
"""Builds a provider's judge from what follows the colon in its name."""


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
    _, model = split_name(settings.name)
    make: Builder = pkgutil.resolve_name(provider_of(settings.name).build)
    return make(model, settings, Surroundings(golden_set, cache, environ, tell_secret, within, rarity))


def build_llm(_: str, settings: JudgeSettings, given: Surroundings) -> Judge:
    from ragstone.judge.llm.assembly import Assembly

    return Assembly(
        settings=settings,
        golden_set=given.golden_set,
        cache=given.cache,
        environ=given.environ,
        tell_secret=given.tell_secret,
        within=given.within,
    ).judge()


def build_scripted(model: str, settings: JudgeSettings, given: Surroundings) -> Judge:
    from ragstone.judge.scripted import read_script

    return read_script(Path(model), concurrency=settings.concurrency, within=given.within)


def build_local(model: str, settings: JudgeSettings, given: Surroundings) -> Judge:
    from ragstone.judge.local.checker import Checker
    from ragstone.judge.local.judge import LocalJudge
    from ragstone.judge.local.selftest import require_sense

    checker = Checker(Path(model), settings.local, within=given.within, digests=settings.model_digests)
    require_sense(checker, settings.local.language)
    return LocalJudge(checker, build_offline("", settings, given), settings.local)


def build_fitted(model: str, settings: JudgeSettings, given: Surroundings) -> Judge:
    from ragstone.judge.fitted import FittedJudge, read_fitted

    path = Path(model)
    fitted, digest = read_fitted(path, within=given.within, digests=settings.model_digests)
    return FittedJudge(path.name, fitted, digest, build_offline("", settings, given))


def build_offline(_: str, settings: JudgeSettings, given: Surroundings) -> OfflineJudge:
    from ragstone.judge.offline import OfflineJudge

    topic, endpoint = _topic(settings, given.environ, given.within)
    questions = (sample.question for sample in given.golden_set)
    references = (reference for sample in given.golden_set for reference in sample.references if reference)
    if topic is None or endpoint is not None:
        # An endpoint is used for answers only: otherwise each sentence of each context would cost money.
        return OfflineJudge(questions, references, topic=topic, endpoint=endpoint, rarity=given.rarity)
    from ragstone.judge.offline.meaning import MeaningJudge

    return MeaningJudge(questions, references, topic=topic, rarity=given.rarity)


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


_CGROUP = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a judge is built from. `settings` holds no secrets; a model must lie below `within`."""

    settings: JudgeSettings
    rarity: Rarity
    within: Path | None = None

    @property
    def loads_model(self) -> bool:
        """Whether the judge loads a local model, for entailment or for embeddings."""
        provider, _ = split_name(self.settings.name)
        return provider == "local" or self.settings.embeddings is not None

    @property
    def on_gpu(self) -> bool:
        """Whether the judge loads a local model onto a GPU."""
        return self.loads_model and self.settings.local.device != "cpu"

    def shared_by(self, workers: int) -> Recipe:
        """The recipe for each of `workers` processes at once: a local model's threads are divided among them."""
        return self.with_threads(max(1, usable_cores() // workers))

    def with_threads(self, threads: int) -> Recipe:
        """The recipe with `threads` for a local model, unless the settings name a number."""
        local = self.settings.local
        own = local.model_copy(update={"threads": local.threads or threads})
        return replace(self, settings=self.settings.model_copy(update={"local": own}))

    def elsewhere(self) -> Recipe:
        """The recipe for another machine, where a local model must be in the folder of the same name."""
        settings = self.settings
        update: dict[str, object] = {}
        if (folder := local_path(settings.name)) is not None:
            update["name"] = f"{LOCAL}{folder.absolute()}"
        if settings.embeddings is not None and (folder := local_path(settings.embeddings)) is not None:
            update["embeddings"] = f"{LOCAL}{folder.absolute()}"
        within = None if self.within is None else self.within.absolute()
        return replace(self, settings=settings.model_copy(update=update), within=within)

    def build(self) -> Judge:
        """A judge that gives the same judgements. Raises ConfigError, for example if a model is no longer there."""
        return build_judge(
            self.settings,
            golden_set=GoldenSet(()),
            cache=None,
            environ={},
            within=self.within,
            rarity=self.rarity,
        )


def recipe_of(judge: Judge, settings: JudgeSettings, *, within: Path | None = None) -> Recipe | None:
    """What `judge`, built from `settings`, is built from; None if it can't be built elsewhere."""
    if not provider_of(settings.name).offline:
        return None
    if settings.embeddings is not None and local_path(settings.embeddings) is None:
        return None
    kind = _kind(settings)
    if type(judge) is not kind or not isinstance(judge, kind):  # a subclass of the user's is not known elsewhere
        return None
    public = settings.model_copy(update={"api_key": None, "headers": None, "embeddings_api_key": None})
    return Recipe(public, judge.rarity, within)


def _kind(settings: JudgeSettings) -> type[OfflineJudge | LocalJudge]:
    """What `build_judge` builds. Only that is imported: a run without a model needs no numpy."""
    if split_name(settings.name)[0] == "local":
        from ragstone.judge.local.judge import LocalJudge

        return LocalJudge
    if settings.embeddings is not None:
        from ragstone.judge.offline.meaning import MeaningJudge

        return MeaningJudge
    from ragstone.judge.offline import OfflineJudge

    return OfflineJudge


def usable_cores() -> int:
    """The cores that this process may use: those of the machine, its affinity, and the limit of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, _, period = _CGROUP.read_text(encoding="ascii").strip().partition(" ")
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max": no limit
        return cores
