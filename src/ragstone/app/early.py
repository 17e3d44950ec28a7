"""Stopping a run as soon as its blocking checks are decided."""

from __future__ import annotations

import numpy as np

from ragstone.app.decide import Terms
from ragstone.app.history import RunHistory, level_of, noise_of
from ragstone.app.rejudge import facts_of
from ragstone.errors import ConfigError
from ragstone.gate.early import EarlyStop, draw_samples
from ragstone.golden.sample import GoldenSet
from ragstone.run.manifest import DrawnManifest, Manifest
from ragstone.run.scores import MetricScores, RunScores

MAX_DRAWN = 10_000
"""Samples whose order a manifest has room for."""


class EarlyStops:
    """Makes the watcher of a run that is decided on `terms`, in an order by the history `past` of its branch."""

    def __init__(self, terms: Terms, past: RunHistory | None) -> None:
        self._terms = terms
        self._past = past

    def __call__(self, golden: GoldenSet, manifest: Manifest) -> EarlyStop:
        """The watcher. Raises ConfigError if samples are grouped."""
        refuse_groups(golden)
        terms, baseline = self._terms, self._terms.baseline
        facts = facts_of(golden.counting())
        metrics = {name: MetricScores({}, version=version) for name, version in manifest.metrics.items()}
        planned = RunScores("this run", metrics, facts, manifest=manifest)
        if baseline is None:
            drawn = draw_samples(facts, terms.seed)
            return EarlyStop(_as_begun(manifest, drawn), facts, terms.in_force, manifest, None)
        baseline = baseline.with_ids_of(planned)
        names, before, noise = baseline.stored_ids, baseline.scores, {}
        if self._past is not None:
            noise = noise_of(self._past, planned, terms.policy, names)
            if terms.level:
                before, _ = level_of(self._past, None, planned, before, terms.policy, names)
        if terms.policy.labels.estimate == "corrected":
            noise = {}  # floors by people's labels know no weights
        drawn = draw_samples(
            facts,
            terms.seed,
            levels=np.array([[before[name].values.get(i, np.nan) for name in noise] for i in sorted(facts)]),
            noise=np.array(list(noise.values())).T,
            names=names,
            basis="" if baseline.run is None else baseline.run.fingerprint,
        )
        return EarlyStop(_as_begun(manifest, drawn), facts, terms.in_force, manifest, before)


def _as_begun(manifest: Manifest, drawn: DrawnManifest) -> DrawnManifest:
    """The order of a run that is resumed, if it has the same samples; else `drawn`."""
    earlier = manifest.drawn
    return earlier if earlier is not None and set(earlier.ids) == set(drawn.ids) else drawn


def refuse_groups(golden: GoldenSet) -> None:
    """Raise ConfigError if samples are grouped, for a run that can stop early."""
    if any(sample.group is not None for sample in golden):
        raise ConfigError(
            "--stop-early needs independent samples; this golden set has groups.",
            hint="Remove --stop-early, or the groups if they are not needed.",
        )
