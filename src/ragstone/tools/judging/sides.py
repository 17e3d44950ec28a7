"""The two sides of a comparison, whose answers to the same questions people label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.app.decide import ComparedRun
from ragstone.app.recorded import read_verdict
from ragstone.errors import ConfigError
from ragstone.gate.comparability import Pairing, pair_runs
from ragstone.gate.labelled_pairs import changed_pairs
from ragstone.run.directory import RunDirectory
from ragstone.run.record import SampleRecord
from ragstone.run.scores import RunScores
from ragstone.tools.judging.labels import BEFORE, NOW


@dataclass(frozen=True, slots=True)
class Sides:
    """A run in `path`, and the one that it is compared with. `find` knows an answer by its side and sample id."""

    path: Path
    fingerprint: str
    now: ComparedRun
    then: ComparedRun
    pairing: Pairing

    @classmethod
    def open(cls, path: Path, baseline: Path | None) -> Sides:
        """The run in `path`, and that in `baseline` or else the baseline of its verdict. Raises ConfigError."""
        run = RunDirectory.open(path)
        recorded = read_verdict(run) if baseline is None else None
        other = None if recorded is None else recorded.terms.baseline_again(run)
        now, then = ComparedRun.of(run), other if baseline is None else ComparedRun.of(RunDirectory.open(baseline))
        if then is None or then.run is None:
            raise ConfigError("was compared with no other run.", where=str(path), hint="Name one with --baseline.")
        pairing = pair_runs(now.scores, then.scores)
        if not pairing.comparability.comparable:
            raise ConfigError(" ".join(pairing.comparability.notes), where=f"{path} and {then.run.path}")
        return cls(path, f"{run.fingerprint} {then.run.fingerprint}", now, then, pairing)

    def scores(self) -> RunScores:
        return self.now.scores

    def changes(self, metrics: Sequence[str]) -> dict[str, float]:
        """How far the scores of each sample with another answer differ, by its id: the largest of `metrics`."""
        found: dict[str, float] = {}
        for metric in metrics:
            for name, change in changed_pairs(self.pairing, metric).items():
                found[name] = max(found.get(name, 0.0), abs(change))
        return found

    def find(self, names: Iterable[str]) -> dict[str, SampleRecord]:
        """The records of the answers `names` (of `both_sides`)."""
        wanted = set(names)
        return {
            f"{side}:{name}": record
            for side, run in ((NOW, self.now), (BEFORE, self.then))
            for name, record in run.find(tuple(one[len(side) + 1 :] for one in wanted if one.startswith(side))).items()
        }


def both_sides(name: str) -> tuple[str, str]:
    """The names of both answers to the sample `name`."""
    return f"{NOW}:{name}", f"{BEFORE}:{name}"


def with_side(row: dict[str, object]) -> dict[str, object]:
    """The label of one answer of a pair with its side and the id of its sample."""
    side, _, name = str(row["id"]).partition(":")
    return {**row, "id": name, "side": side}
