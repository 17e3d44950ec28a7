"""The health and growth of a golden set: what it can detect, what needs a look, parts, samples, changes, imports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.formatting import clipped, counted, percent, some
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import expected_rules, resolution, sights
from ragstone.golden.load import find_files, golden_set_of_rows, load_golden_set
from ragstone.golden.sample import GoldenSet, Review, Sample
from ragstone.judge.judgements import Verdict
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.run.files import writing_to
from ragstone.run.scores import RunScores
from ragstone.system.response import Context
from ragstone.tools.generate.convert.convert import write_samples
from ragstone.tools.generate.golden.changes import Changed, Changes
from ragstone.tools.generate.golden.corpus import Corpus, CorpusCheck, check_references
from ragstone.tools.generate.golden.exports import Export, Tool, read_export
from ragstone.tools.generate.golden.health import Health, SimilarSamples, examine
from ragstone.tools.generate.golden.subsets import draw, split

FEWEST = 100
"""With fewer samples, a golden set detects only large drops."""

_SHOWN = 10
_REFERENCE_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two samples with the same question, or nearly, whose answers can't both be right; `why` is a clause."""

    first: Sample
    second: Sample
    why: str


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """All that `ragstone golden stats` says. `drafts` count in `health`, but not in `seen`, what the others detect."""

    health: Health
    drafts: int
    contradictions: tuple[Contradiction, ...]
    corpus: CorpusCheck | None
    seen: str | None

    @property
    def problems(self) -> int:
        """How many findings are almost certainly mistakes: duplicates, contradictions and missing references."""
        missing = len(self.corpus.missing_ids) + len(self.corpus.missing_passages) if self.corpus is not None else 0
        return len(self.health.duplicates) + len(self.contradictions) + missing


def report_on(
    golden: GoldenSet,
    policy: Policy,
    *,
    corpus: Corpus | None = None,
    run: RunScores | None = None,
    offline: bool = False,
) -> GoldenReport:
    """Examine `golden`. `run` gives the variances for what it detects; without it, typical ones are assumed, and
    `offline` says that the offline judge will score it.
    """
    health = examine(golden.samples)
    counting = [sample for sample in golden if not sample.draft]
    rules = expected_rules(policy, run, offline=offline)
    seen, _ = resolution(sights(rules, policy, run, samples=len(counting)))
    same = [SimilarSamples(members[0], other, 1.0) for members in health.duplicates for other in members[1:]]
    return GoldenReport(
        health=health,
        drafts=len(golden) - len(counting),
        contradictions=tuple(asyncio.run(_contradictions([*same, *health.similar]))),
        corpus=check_references(golden.samples, corpus) if corpus is not None else None,
        seen=seen,
    )


async def _contradictions(pairs: Sequence[SimilarSamples]) -> list[Contradiction]:
    judge = OfflineJudge()
    found = []
    for pair in pairs:
        why = await _contradiction(judge, pair.first, pair.second)
        if why is not None:
            found.append(Contradiction(pair.first, pair.second, why))
    return found


async def _contradiction(judge: OfflineJudge, first: Sample, second: Sample) -> str | None:
    """Why the answers of two samples contradict each other; None if the offline judge can't tell that they do."""
    if first.answerable != second.answerable:
        return "only one of them is answerable"
    if not first.reference or not second.reference:
        return None
    for sample, other in ((first, second), (second, first)):
        call = Call(sample.id, 0, Ledger())
        try:
            said = await judge.statements(sample.question, sample.reference or "", call=call)
            table = await judge.support([Context(other.reference or "")], said.statements, call=call)
        except JudgementFailed:
            continue
        if any(one.verdict is Verdict.CONTRADICTED for one in table.supports):
            return "the offline judge finds a contradiction in their references"
    return None


def report_lines(found: GoldenReport) -> Iterator[str]:
    """The report as lines of text."""
    health = found.health
    verb = "doesn't" if found.drafts == 1 else "don't"
    drafts = f", {counted(found.drafts, 'draft')} that {verb} count yet" if found.drafts else ""
    yield f"{counted(health.samples, 'sample')}{drafts}; {percent(health.unanswerable)} unanswerable."
    for kind, count in sorted(health.kinds.items(), key=lambda one: (-one[1], one[0])):
        yield f"  {kind:<18}  {count:,}"
    yield f"  {'with passages':<18}  {health.with_contexts:,}"
    yield f"  {'with relevant ids':<18}  {health.with_relevant_ids:,}"
    if health.groups:
        yield f"  {'groups':<18}  {health.groups:,}, the largest of {counted(health.largest_group, 'sample')}"
    yield ""
    yield "By tag (a sample can have several):"
    for tag, kinds in list(health.tags.items())[: 3 * _SHOWN]:
        own = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        yield f"  {tag or '(no tag)'}  {sum(kinds.values()):,} ({own})"
    if len(health.tags) > 3 * _SHOWN:
        yield f"  and {counted(len(health.tags) - 3 * _SHOWN, 'more tag')}"
    yield ""
    if health.samples - found.drafts < FEWEST:
        yield f"Warning: fewer than {FEWEST} samples count, so only large drops can be distinguished from chance."
    if found.seen is not None:
        yield found.seen
    yield ""
    yield from _findings(found)
    if found.corpus is not None:
        yield from _corpus_lines(found.corpus)


def _findings(found: GoldenReport) -> Iterator[str]:
    health = found.health
    yield from _listed(
        "Same question in several samples",
        [", ".join(sample.id for sample in members) for members in health.duplicates],
    )
    contradicted = {frozenset((one.first.id, one.second.id)) for one in found.contradictions}
    yield from _listed(
        "Contradictions between samples with the same question, or nearly",
        [f"{_pair(one.first, one.second)}: {one.why}" for one in found.contradictions],
    )
    yield from _listed(
        "Near-duplicates",
        [
            f"{_pair(one.first, one.second)}, similarity {one.similarity:.2f}"
            for one in health.similar
            if frozenset((one.first.id, one.second.id)) not in contradicted
        ],
    )
    yield from _listed(
        "Texts of unusual length",
        [f"{one.id}: {one.field} of {one.length:,} characters (median {one.median:,.0f})" for one in health.outliers],
    )


def _pair(first: Sample, second: Sample) -> str:
    return f"{first.id} and {second.id} ({first.origin} and {second.origin})"


def _listed(what: str, entries: Sequence[str]) -> Iterator[str]:
    if not entries:
        yield f"{what}: none"
        return
    yield f"{what}: {len(entries):,}"
    yield from (f"  {entry}" for entry in entries[:_SHOWN])
    if len(entries) > _SHOWN:
        yield f"  and {len(entries) - _SHOWN:,} more (--format json lists all)"


def _corpus_lines(found: CorpusCheck) -> Iterator[str]:
    yield ""
    unread = f", {found.unread:,} of them without text that can be searched" if found.unread else ""
    yield f"Against {counted(found.documents, 'document')}{unread}:"
    if found.ids and not found.scheme_known:
        yield (
            f"  {found.known_ids:,} of {counted(found.ids, 'relevant id')} match a document, so ids can't be checked: "
            "they are not paths. Name a folder with JSON Lines of id and text."
        )
    elif found.ids:
        gone = [f"{one.sample_id}: {one.what}" for one in found.missing_ids]
        yield from _listed("  Relevant ids that no document has", gone)
    if found.passages:
        gone = [f"{one.sample_id}: {one.what}" for one in found.missing_passages]
        yield from _listed("  Passages that no document contains", gone)


def report_json(found: GoldenReport) -> dict[str, object]:
    """The report for JSON, with every finding."""
    health, corpus = found.health, found.corpus

    def both(first: Sample, second: Sample) -> dict[str, object]:
        return {
            "ids": [first.id, second.id],
            "places": [str(first.origin), str(second.origin)],
            "questions": [first.question, second.question],
            "references": [first.reference, second.reference],
        }

    return {
        "samples": health.samples,
        "drafts": found.drafts,
        "unanswerable": health.unanswerable,
        "kinds": dict(health.kinds),
        "tags": {tag: dict(kinds) for tag, kinds in health.tags.items()},
        "with_passages": health.with_contexts,
        "with_relevant_ids": health.with_relevant_ids,
        "groups": health.groups,
        "largest_group": health.largest_group,
        "enough": health.samples - found.drafts >= FEWEST,
        "resolution": found.seen,
        "duplicates": [[sample.id for sample in members] for members in health.duplicates],
        "near_duplicates": [both(one.first, one.second) | {"similarity": one.similarity} for one in health.similar],
        "contradictions": [both(one.first, one.second) | {"why": one.why} for one in found.contradictions],
        "outliers": [asdict(one) for one in health.outliers],
        "corpus": None
        if corpus is None
        else {
            "documents": corpus.documents,
            "unread": corpus.unread,
            "ids": corpus.ids,
            "known_ids": corpus.known_ids,
            "missing_ids": [{"id": one.sample_id, "relevant_id": one.what} for one in corpus.missing_ids],
            "passages": corpus.passages,
            "missing_passages": [{"id": one.sample_id, "start": one.what} for one in corpus.missing_passages],
        },
    }


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


def import_files(
    paths: Sequence[str],
    tool: Tool,
    *,
    root: Path,
    columns: Mapping[str, str],
    dataset: str | None = None,
    version: str | None = None,
    partial: bool = False,
    drafts: bool = False,
) -> tuple[GoldenSet, Export]:
    """The golden set in an export of `tool`, each sample with its provenance, and the export.

    `dataset` and `version` override those in the files. Raises GoldenSetError if it can't be read.
    """
    export = read_export(find_files(paths, root), tool, partial=partial)
    if not export.rows:
        raise GoldenSetError("the export contains no items.", where=str(paths[0]))
    export = replace(export, dataset=dataset or export.dataset, version=version or export.version)
    golden = golden_set_of_rows(export.rows, tool.value, columns=columns)
    named = "id" in golden.mappings[0].columns
    samples = tuple(
        replace(
            sample,
            provenance=export.provenance(sample.id if named else None),
            review=Review("draft") if drafts else sample.review,
        )
        for sample in golden
    )
    return GoldenSet(samples, golden.mappings), export


def change_lines(found: Changes, before: str, after: str) -> Iterator[str]:
    """The differences between two golden sets as lines of text."""
    total = found.same + len(found.changed) + len(found.renamed) + len(found.reworded) + len(found.added)
    yield (
        f"{before} → {after}: {found.same:,} the same, {len(found.changed):,} changed, {len(found.renamed):,} with "
        f"a new id, {len(found.reworded):,} reworded, {len(found.added):,} added, {len(found.removed):,} removed."
    )
    yield f"A run on {after} compares {found.paired:,} of {counted(total, 'sample')} with a baseline on {before}."
    for title, entries in (("changed", found.changed), ("new id", found.renamed), ("reworded", found.reworded)):
        if entries:
            yield ""
            yield f"{title}:"
            for one in entries:
                yield from _change_lines(one)
    for title, samples in (("added", found.added), ("removed", found.removed)):
        if samples:
            yield ""
            yield f"{title}:"
            for sample in samples:
                yield f"  {sample.id}: {clipped(' '.join(sample.question.split()), _REFERENCE_SHOWN)}"


def _change_lines(one: Changed) -> Iterator[str]:
    name = one.before.id if one.before.id == one.after.id else f"{one.before.id} → {one.after.id}"
    yield f"  {name}" + (f": {some(list(one.fields))}" if one.fields else "")
    for name in one.fields:
        before, after = getattr(one.before, name), getattr(one.after, name)
        yield f"    {name}: {_shown(before)}"
        yield f"    {' ' * len(name)}→ {_shown(after)}"


def _shown(value: object) -> str:
    if value is None or value == () or value == {}:
        return "nothing"
    if isinstance(value, Review):
        return ", ".join(part for part in (value.status, value.reviewer, value.date) if part)
    if isinstance(value, Mapping):
        value = ", ".join(f"{key} ({grade:g})" for key, grade in value.items())
    elif isinstance(value, tuple):
        value = " | ".join(map(str, value))
    return clipped(" ".join(str(value).split()), _REFERENCE_SHOWN)


def change_json(found: Changes) -> dict[str, object]:
    """The differences for JSON."""

    def pairs(entries: Sequence[Changed]) -> list[dict[str, object]]:
        return [
            {"before": one.before.id, "after": one.after.id, "fields": list(one.fields), "paired": one.paired}
            for one in entries
        ]

    return {
        "same": found.same,
        "paired": found.paired,
        "changed": pairs(found.changed),
        "renamed": pairs(found.renamed),
        "reworded": pairs(found.reworded),
        "added": [sample.id for sample in found.added],
        "removed": [sample.id for sample in found.removed],
    }
