"""Merges shards into the run that one machine would have written.

Every shard is read twice: once to check it, and once to copy its records. Neither holds more than one record at a time.
A shard may come from elsewhere, so that nothing in it is taken on trust but its answers and judgements: its scores must
follow from them, and its samples must be those of the golden set.
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from pathlib import Path

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.files import open_regular
from ragstone.formatting import counted, listed
from ragstone.golden.sample import GoldenSet, hash_of_contents
from ragstone.judge.cache import JudgementCache
from ragstone.metrics.custom import FunctionMetric
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.run.directory import CACHE, MANIFEST, SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.run.files import replace_text
from ragstone.run.manifest import Canaries, Cost, Counts, Manifest, Observed, Planted, ShardManifest
from ragstone.run.record import SampleRecord
from ragstone.run.replay import contradicted, recomputable
from ragstone.run.scoring import sample_scores, sample_state, scored_answer
from ragstone.run.serialise import RecordFacts, facts_from_line, record_from_line
from ragstone.run.shards import Shard, decode_places, shard_number
from ragstone.run.writer import RunWriter
from ragstone.system.child import MAX_LOG_BYTES
from ragstone.system.payload import failed
from ragstone.system.response import LOST, SystemFailureKind

ALIKE = {
    "schema_version": "the format of the run",
    "ragstone_version": "the version of Ragstone",
    "golden": "the golden set",
    "judge": "the judge or its prompts",
    "system": "the entrypoint, the commit or the version of the system",
    "metrics": "the metrics",
    "repeats": "repeats",
    "answers": "answers",
    "price": "the price of the system's tokens",
    "policy_hash": "the policy",
    "drawn": "an order of drawing, which a shard can't have",
    "oracle": "an oracle half, which a shard can't have",
    "oracle_of": "the run whose oracle half it is",
}
"""What all shards of a run have in common, and its name in messages."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged run, and of how many shards it is one.

    `lost` says, in a sentence for each shard that could not be used, that its samples count as failed.
    """

    run: RunDirectory
    shards: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """A shard that was opened; `counts` are its own, once it is checked."""

    run: RunDirectory
    shard: ShardManifest
    counts: Counts = field(default_factory=Counts)

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The run directories in `paths`, each once: every path is one, or a folder of them. Raises RunDirectoryError."""
    found: dict[str, Path] = {}
    for path in paths:
        inside = [path] if os.path.lexists(path / MANIFEST) else _runs_in(path)
        if not inside:
            raise RunDirectoryError(
                "contains no run directory.",
                where=str(path),
                hint="Name the run directories of `ragstone run --shard`, or the folder that contains them.",
            )
        for one in inside:
            found.setdefault(os.path.realpath(one), one)
    return list(found.values())


def _runs_in(folder: Path) -> list[Path]:
    with disk_errors(folder, kind=RunDirectoryError):
        inside = sorted(folder.iterdir())
    return [one for one in inside if any(os.path.lexists(one / name) for name in (MANIFEST, SAMPLES))]


def merge_runs(
    paths: Sequence[Path],
    out: Path,
    *,
    golden: GoldenSet | None = None,
    custom: Sequence[Metric] = (),
    allow_missing: bool = False,
    redact: Callable[[str], str] = str,
    finished: Callable[[Manifest], Manifest] = lambda manifest: manifest,
) -> Merged:
    """Write the run to `out` of which the run directories `paths` are the shards.

    With `golden`, every sample must be as it is there; else all together must have the hash that the shards give.
    `custom` are the metrics that the project defines. `allow_missing` needs `golden`: the samples of shards that are
    missing, damaged or unfinished are then failures. `finished` completes the manifest. Raises RunDirectoryError that
    names the shard.
    """
    parts, lost = _open(paths)
    first = _refuse_strangers(parts, lost, golden)
    whole: list[_Part] = []
    hashes: dict[str, str] | None = {} if golden is None else None
    for part in parts:
        try:
            whole.append(_checked(part, golden, custom, hashes))
        except RunDirectoryError as error:
            lost.append(_Lost(part.shard.number, f"can't be used: {error.where}: {error.message}"))
    lost = _all_lost(lost, whole, first.shard.of)
    if lost and (not allow_missing or not whole):
        raise _incomplete(lost, first.shard.of)
    if hashes is not None:
        _check_together(first.manifest, whole, hashes)
    manifest = finished(_merged_manifest(whole))
    writer = RunWriter.create(out, manifest, redact=redact)
    streams: list[Iterator[_Line]] = [_lines(part) for part in whole]
    if lost and golden is not None:
        streams.append(_failures(golden, manifest, {one.number for one in lost}, first.shard.of))
    for _, line in heapq.merge(*streams, key=lambda one: one[0]):
        if isinstance(line, SampleRecord):
            writer.append(line)
        else:
            writer.copy(*line)
    run = writer.finish(writer.finished_ids, wall_s=max(part.manifest.wall_s for part in whole))
    _merge_judgements(whole, out)
    _merge_logs(whole, out, redact)
    return Merged(run, first.shard.of, tuple(_sentences(lost, golden, first.shard.of)))


# -- checking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lost:
    """A shard that can't be used, and why, as what follows after its name; None if its number is not known."""

    number: int | None
    why: str


def _open(paths: Sequence[Path]) -> tuple[list[_Part], list[_Lost]]:
    """The shards in `paths` by number, and what could not be read. Raises RunDirectoryError for other runs."""
    parts: dict[int, _Part] = {}
    lost: list[_Lost] = []
    for path in paths:
        try:
            run = RunDirectory.open(path)
        except RunDirectoryError as error:
            lost.append(_Lost(None, f"can't be read: {error.where}: {error.message}"))
            continue
        shard = run.manifest.shard
        if shard is None:
            raise RunDirectoryError(
                "it is a run of the whole golden set, not a shard.",
                where=str(path),
                hint="Merge the run directories that were made with --shard.",
            )
        twin = parts.setdefault(shard.number, part := _Part(run, shard))
        if twin is not part:
            raise RunDirectoryError(
                f"{shard.name} is given twice, also in {twin.run.path}.", where=str(path), hint="Leave one of them out."
            )
    return [parts[number] for number in sorted(parts)], lost


def _refuse_strangers(parts: Sequence[_Part], lost: Sequence[_Lost], golden: GoldenSet | None) -> _Part:
    """The first shard. Raises RunDirectoryError if another does not belong to the same run, or there is none."""
    if not parts:
        why = lost[0].why if lost else "there is none"
        raise RunDirectoryError(f"no shard can be merged: the first {why}")
    first = parts[0]
    for part in parts[1:]:
        different = ["the number of shards"] if part.shard.of != first.shard.of else []
        different += [
            said for name, said in ALIKE.items() if getattr(part.manifest, name) != getattr(first.manifest, name)
        ]
        if different:
            raise RunDirectoryError(
                f"{part.shard.name} does not belong to {first.shard.name} in {first.run.path}: "
                f"it differs in {listed(different)}.",
                where=str(part.run.path),
                hint="Merge shards of the same commit, evaluated with the same settings.",
            )
    if golden is None:
        return first
    if golden.content_hash() != first.manifest.golden.content_hash:
        raise RunDirectoryError(
            "the golden set here is not the one that the shards evaluated.",
            where=str(first.run.path),
            hint="Merge them where they were made: with the same commit, files and --limit.",
        )
    for part in parts:
        if part.shard.places != Shard(part.shard.number, part.shard.of).describe(golden).places:
            raise _disordered(part)
    return first


def _disordered(part: _Part) -> RunDirectoryError:
    return RunDirectoryError(
        f"{part.shard.name} has other samples, or another order, than the golden set.",
        where=str(part.run.path),
        hint="Evaluate it again, with the same files in the same order.",
    )


def _checked(part: _Part, golden: GoldenSet | None, custom: Sequence[Metric], hashes: dict[str, str] | None) -> _Part:
    """`part` after reading it all. `hashes` gets the content hash of every sample. Raises RunDirectoryError."""
    manifest, run = part.manifest, part.run
    if manifest.state != "finished":
        raise RunDirectoryError(f"it was {manifest.state}, not finished.", where=str(run.path))
    _time(part)
    metrics, shard = recomputable(manifest, custom), Shard(part.shard.number, part.shard.of)
    digest = hashlib.sha256()
    counts: dict[str, int] = {}
    seen: set[str] = set()
    places = decode_places(part.shard.places)
    for number, line in run.lines(digest.update):
        where = f"{run.path / SAMPLES}:{number}"
        record = record_from_line(line, where)
        try:
            place = next(places, None)
        except ValueError as error:
            raise RunDirectoryError(f"not a valid manifest: {error}.", where=str(run.path / MANIFEST)) from None
        _check_record(record, manifest, metrics, where)
        known = golden is None or (place is not None and golden.samples[place] == record.sample)
        if place is None or not known or not shard.holds(record.sample) or record.sample.id in seen:
            raise RunDirectoryError(f"sample '{record.sample.id}' does not belong there.", where=where)
        seen.add(record.sample.id)
        if hashes is not None:
            hashes[record.sample.id] = record.sample.content_hash()
        state = sample_state(record.scores, record.responses)
        counts[state] = counts.get(state, 0) + 1
    found = Counts(**counts)
    if next(places, None) is not None or found != manifest.counts or digest.hexdigest() != part.shard.digest:
        raise RunDirectoryError(
            f"the file was changed or only partly copied (it has {counted(found.total, 'sample')}, the manifest counts "
            f"{manifest.counts.total:,}).",
            where=str(run.path / SAMPLES),
        )
    return replace(part, counts=found)


def _check_record(record: SampleRecord, manifest: Manifest, metrics: Sequence[Metric], where: str) -> None:
    sample_id = record.sample.id
    if record.scores.keys() != manifest.metrics.keys() or len(record.answers) != manifest.answers:
        raise RunDirectoryError(f"sample '{sample_id}' has other metrics or answers than the manifest.", where=where)
    if (name := contradicted(metrics, record)) is not None:
        raise RunDirectoryError(
            f"sample '{sample_id}': {name} does not follow from the recorded judgements.", where=where
        )


def _check_together(manifest: Manifest, whole: Sequence[_Part], hashes: dict[str, str]) -> None:
    """Raise RunDirectoryError unless the samples of all shards are the golden set, each once."""
    expected = 0
    for place in heapq.merge(*(decode_places(part.shard.places) for part in whole)):
        if place != expected:
            break
        expected += 1
    if (
        expected == manifest.golden.samples == len(hashes)
        and hash_of_contents(hashes.items()) == manifest.golden.content_hash
    ):
        return
    raise RunDirectoryError(
        "the samples of the shards together are not the golden set that they were made from.",
        where=str(whole[0].run.path.parent),
        hint="A shard was changed after it was evaluated: evaluate them again.",
    )


def _all_lost(lost: Sequence[_Lost], whole: Sequence[_Part], of: int) -> list[_Lost]:
    """`lost`, by number, with those that are not there at all; unreadable ones have no number, and come last."""
    known = {part.shard.number for part in whole} | {one.number for one in lost}
    found = [*lost, *(_Lost(number, "is missing.") for number in range(1, of + 1) if number not in known)]
    return sorted(found, key=lambda one: of + 1 if one.number is None else one.number)


def _incomplete(lost: Sequence[_Lost], of: int) -> RunDirectoryError:
    numbers = [one.number for one in lost if one.number is not None]
    said = "\n".join(f"  {_named(one, of)} {one.why}" for one in lost)
    again = " and ".join(f"--shard {number}/{of}" for number in numbers[:3])
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    several = counted(len(numbers), "shard")
    return RunDirectoryError(
        f"{several} of {of} can't be merged.\n{said}",
        hint=f"Evaluate again with {again}{more}, or add --allow-missing to count their samples as failed.",
    )


def _named(one: _Lost, of: int) -> str:
    return "a shard" if one.number is None else f"shard {one.number} of {of}"


def _sentences(lost: Sequence[_Lost], golden: GoldenSet | None, of: int) -> Iterator[str]:
    for one in lost:
        if one.number is not None and golden is not None:
            samples = len(Shard(one.number, of).part(golden))
            why = " ".join(one.why.split())
            count = f"{counted(samples, 'sample')} {'counts' if samples == 1 else 'count'}"
            yield f"{_named(one, of).capitalize()} {why} Its {count} as failed."


# -- writing -----------------------------------------------------------------------------------------------------------

_Line = tuple[int, tuple[RecordFacts, bytes] | SampleRecord]
"""The place of a sample in the golden set, and its line or its record."""


def _merged_manifest(whole: Sequence[_Part]) -> Manifest:
    manifests = [part.manifest for part in whole]
    observed = [one.observed for one in manifests if one.observed is not None]
    canaries = [one.canaries for one in manifests if one.canaries is not None]
    planted = [one.planted for one in manifests if one.planted is not None]
    first = min(whole, key=_time).manifest
    return first.model_copy(
        update={
            "state": "running",
            "shard": None,
            "counts": reduce(Counts.plus, (part.counts for part in whole)),
            "cost": reduce(Cost.plus, (one.cost for one in manifests), Cost()),
            "usage": None,
            "wall_s": 0.0,
            "observed": reduce(Observed.plus, observed) if observed else None,
            "canaries": reduce(Canaries.plus, canaries) if canaries else None,
            "planted": reduce(Planted.plus, planted) if planted else None,
            "verdict": None,
            "stop_reason": None,
            "baseline": None,
            "retrieval": None,
            "confirmed": False,
            "same_job": False,
        }
    )


def _time(part: _Part) -> datetime:
    try:
        return datetime.fromisoformat(part.manifest.created_at).astimezone()
    except (ValueError, OverflowError):
        raise RunDirectoryError("not a valid manifest: created_at.", where=str(part.run.path / MANIFEST)) from None


def _lines(part: _Part) -> Iterator[_Line]:
    places = decode_places(part.shard.places)
    for number, line in part.run.lines():
        where = f"{part.run.path / SAMPLES}:{number}"
        yield next(places), (facts_from_line(line, where), line)


def _failures(golden: GoldenSet, manifest: Manifest, numbers: set[int | None], of: int) -> Iterator[_Line]:
    named = manifest.metrics.items()
    # One that is not Ragstone's own is a function or a rubric of the project.
    metrics = [find_metric(name) or FunctionMetric(name, version) for name, version in named]
    for place, sample in enumerate(golden):
        number = shard_number(sample, of)
        if number in numbers:
            response = failed(sample.id, SystemFailureKind.MISSING, f"shard {number} of {of} {LOST}")
            answers = (scored_answer(metrics, sample, response, ()),) * manifest.answers
            yield place, SampleRecord(sample, answers, sample_scores(metrics, sample, answers))


def _merge_judgements(whole: Sequence[_Part], out: Path) -> None:
    sources = [path for part in whole if os.path.lexists(path := part.run.path / CACHE)]
    if sources:
        with closing(JudgementCache(out / CACHE)) as cache:
            for path in sources:
                cache.restore_from(path)


def _merge_logs(whole: Sequence[_Part], out: Path, redact: Callable[[str], str]) -> None:
    """The output of the system, under the name of each shard; all together no longer than that of one machine."""
    texts: list[str] = []
    for part in whole:
        with suppress(OSError), open_regular(part.run.path / SYSTEM_LOG) as stream:
            text = stream.read(MAX_LOG_BYTES // len(whole)).decode("utf-8", "replace")
            texts.append(f"-- {part.shard.name} --\n{text}" + ("" if text.endswith("\n") else "\n"))
    if texts:
        replace_text(out / SYSTEM_LOG, redact("".join(texts)))
    else:
        (out / SYSTEM_LOG).unlink(missing_ok=True)
