"""Divides a golden set: into parts, or into a small sample and the rest, with the same mix of tags in each."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.gate.policy import Policy
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.run.files import writing_to
from ragstone.tools.generate.convert import write_samples


def kind_of(sample: Sample) -> str:
    """``unanswerable``, ``with reference`` or ``without reference``."""
    if not sample.answerable:
        return "unanswerable"
    return "with reference" if sample.reference else "without reference"


def strata_of(sample: Sample) -> frozenset[str]:
    return frozenset({f"kind {kind_of(sample)}", *(f"tag {tag}" for tag in sample.tags)})


def split(
    samples: Sequence[Sample],
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    kept: Mapping[str, str] | None = None,
) -> dict[str, list[Sample]]:
    """Divide `samples` among the parts in `shares` (name to share, together 1), each in the order of `samples`.

    Groups stay together. Tags and kinds have about the same shares in every part: iterative stratification (Sechidis,
    Tsoumakas, Vlahavas 2011, "On the stratification of multi-label data"). `kept` maps ids to parts in which they must
    stay, with their groups: a set that has grown is divided without moving a sample from one part to another.
    """
    units: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        units[f"group {sample.group}" if sample.group is not None else f"id {sample.id}"].append(sample)
    labels = {name: Counter(label for one in members for label in strata_of(one)) for name, members in units.items()}
    sizes = Counter(label for found in labels.values() for label in found.elements())
    wanted = {part: {label: share * sizes[label] for label in sizes} for part, share in shares.items()}
    room = {part: share * len(samples) for part, share in shares.items()}
    parts: dict[str, str] = {}

    def place(unit: str, part: str) -> None:
        parts[unit] = part
        room[part] -= len(units[unit])
        for label, count in labels[unit].items():
            wanted[part][label] -= count

    for unit, members in units.items():
        stays = {kept[one.id] for one in members if one.id in kept} if kept else set()
        if stays:
            place(unit, min(stays, key=list(shares).index))
    order = sorted((unit for unit in units if unit not in parts), key=lambda unit: _rank(seed, unit))
    open_units: dict[str, list[str]] = defaultdict(list)
    for unit in sorted(order, key=lambda unit: -len(units[unit])):
        for label in labels[unit]:
            open_units[label].append(unit)
    # The rarest strata first: they have the fewest places left to be made even.
    for label in sorted(open_units, key=lambda one: (sum(labels[u][one] for u in open_units[one]), one)):
        for unit in open_units[label]:
            if unit not in parts:
                place(unit, max(shares, key=lambda part: (wanted[part][label], room[part])))
    found: dict[str, list[Sample]] = {part: [] for part in shares}
    for sample in samples:
        found[parts[f"group {sample.group}" if sample.group is not None else f"id {sample.id}"]].append(sample)
    return found


def draw(
    samples: Sequence[Sample], size: int, *, seed: int = 0, always: Collection[str] = ()
) -> tuple[list[Sample], tuple[str, ...]]:
    """A sample of `size` in the order of `samples`, and the tags that it has no room for.

    It contains `always` (ids), every tag and kind at least once as far as there is room, and otherwise each in
    proportion. Which samples come first depends on the seed and their ids alone, so a set that grows keeps most of its
    sample.
    """
    size = min(size, len(samples))
    order = sorted(samples, key=lambda one: _rank(seed, one.id))
    chosen = {sample.id for sample in order if sample.id in always}
    strata = {sample.id: strata_of(sample) for sample in order}
    sizes = Counter(label for found in strata.values() for label in found)
    have = Counter(label for name in chosen for label in strata[name])

    def take(quota: Mapping[str, int]) -> None:
        for label in sorted(quota, key=lambda one: (sizes[one], one)):
            for sample in order:
                if have[label] >= quota[label] or len(chosen) >= size:
                    break
                if sample.id not in chosen and label in strata[sample.id]:
                    chosen.add(sample.id)
                    have.update(strata[sample.id])

    take(dict.fromkeys(sizes, 1))
    take({label: int(count * size / len(samples)) for label, count in sizes.items()})
    for sample in order:
        if len(chosen) < size:
            chosen.add(sample.id)
    missing = sorted(label.removeprefix("tag ") for label in sizes if label.startswith("tag ") and not have[label])
    return [sample for sample in samples if sample.id in chosen], tuple(missing)


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()


def split_files(
    golden: GoldenSet, shares: Mapping[str, float], folder: Path, *, seed: int, afresh: bool = False
) -> dict[str, tuple[Path, list[Sample], int]]:
    """Write the parts of `golden` to ``folder/NAME.jsonl``; the file, samples and number of new ones of each.

    Samples stay in the parts where the files have them, unless `afresh`. Raises ConfigError for shares that don't add
    up to 1, and if a file can't be written.
    """
    if not shares or any(not 0.0 < share <= 1.0 for share in shares.values()) or abs(sum(shares.values()) - 1.0) > 1e-6:
        raise ConfigError(
            "the shares of the parts must be above 0 and add up to 1.", hint="For example: dev=0.2 test=0.8"
        )
    files = {name: folder / f"{name}.jsonl" for name in shares}
    kept: dict[str, str] = {}
    for name, file in files.items():
        if file.exists() and not afresh:
            kept.update((sample.id, name) for sample in load_golden_set(file.name, root=file.parent))
    parts = split(golden.samples, shares, seed=seed, kept=kept)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, samples in parts.items():
        if not samples:
            raise ConfigError(
                f"part '{name}' would be empty.", hint="Use fewer parts, or larger shares: groups stay together."
            )
    for name, samples in parts.items():
        write_samples(samples, files[name], force=True)
    return {
        name: (files[name], samples, sum(sample.id not in kept for sample in samples))
        for name, samples in parts.items()
    }


def sample_file(
    golden: GoldenSet, size: int, target: Path, policy: Policy, *, seed: int, force: bool = False
) -> tuple[list[Sample], tuple[str, ...]]:
    """Write a stratified sample of `golden` with the policy's must-pass samples; the samples, and tags without room."""
    must = frozenset(policy.must_pass.samples) & {sample.id for sample in golden}
    if size < max(1, len(must)):
        raise ConfigError(f"--n must be at least {max(1, len(must))}, the number of must-pass samples, got {size}.")
    chosen, missing = draw(golden.samples, size, seed=seed, always=must)
    write_samples(chosen, target, force=force)
    return chosen, missing
