"""What a run records about its judge besides the identity: which model replied, and the results of canaries."""

from __future__ import annotations

from collections.abc import Callable

from ragstone.golden.sample import Sample
from ragstone.judge.protocol import Judge, Ledger, Sightings
from ragstone.run.canaries import ask_again, choose_canaries
from ragstone.run.directory import RunDirectory
from ragstone.run.manifest import Canaries, Cost, Observed
from ragstone.run.writer import update_manifest


async def watch_judge(
    run: RunDirectory,
    judge: Judge,
    baseline: RunDirectory | None,
    canaries: int,
    *,
    inherits: bool,
    mine: Callable[[Sample], bool] | None = None,
) -> RunDirectory:
    """Record the observed judge in `run`, and repeat `canaries` judgements of `baseline`.

    Nothing is repeated if the judge differs from the baseline's or can't change. `inherits`: judgements of the baseline
    were reused, so what was observed for it also applies to this run. `mine`: of those to repeat, only the samples for
    which it is true, because other shards repeat the rest.
    """
    sightings: Sightings | None = getattr(judge, "sightings", None)
    if sightings is None:
        return run
    earlier = baseline.manifest.observed if baseline is not None and inherits else None
    used_earlier = earlier if run.manifest.cost.cached_calls else None
    update: dict[str, object] = {"observed": _observed(sightings, used_earlier)}
    if canaries and baseline is not None and baseline.manifest.judge == run.manifest.judge:
        found, ledger = await _ask(judge, sightings, baseline, canaries, mine)
        update |= {"canaries": found, "cost": run.manifest.cost.plus(Cost.of(ledger))}
    return update_manifest(run, **update)


async def _ask(
    judge: Judge, sightings: Sightings, baseline: RunDirectory, n: int, mine: Callable[[Sample], bool] | None
) -> tuple[Canaries | None, Ledger]:
    before = set(sightings.models)
    sightings.models.clear()
    chosen = choose_canaries(baseline.records(), n)
    if mine is not None:
        chosen = tuple(canary for canary in chosen if mine(canary.record.sample))
    found, ledger = await ask_again(judge, chosen)
    models = tuple(sorted(sightings.models))
    sightings.models |= before
    return (found.model_copy(update={"models": models}) if found.asked or found.unanswered else None), ledger


def _observed(sightings: Sightings, earlier: Observed | None) -> Observed | None:
    found = Observed(
        models=tuple(sightings.models), fingerprints=tuple(sightings.fingerprints), ways=tuple(sightings.ways)
    ).plus(earlier or Observed())
    return found if found != Observed() else None
