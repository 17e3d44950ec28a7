"""Judges that another process of this machine can build again: the offline judge and local models.

Only what they depend on is sent there: settings without secrets, and the word weights, which are computed once from all
texts of the golden set. A judge that needs a network, a key or an object of the user's stays where it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstone.config import JudgeSettings
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.names import LOCAL, local_path, provider_of, split_name
from ragstone.judge.protocol import Judge

if TYPE_CHECKING:
    from ragstone.judge.local.judge import LocalJudge
    from ragstone.judge.offline import OfflineJudge
    from ragstone.judge.offline.rarity import Rarity

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
