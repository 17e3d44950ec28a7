"""Which broken systems the default gate fails, and whether it passes healthy ones: bench/broken_systems.md.

    python bench/broken_systems.py --write            # all of it, into bench/broken_systems.md
    python bench/broken_systems.py --judges offline --sets ferry --sizes 50
    python bench/broken_systems.py --only "doesn't know"
    python bench/broken_systems.py --judges offline --sizes 50 --wordings

The recorded answers of a healthy system (the example's baseline; tests/corpus/ferry.json) are changed for a share of
its questions as systems.py says, judged, and decided by the policy that `ragstone init` writes. The offline judge
judges the answers themselves. The scores of a perfect LLM judge are those that systems.py calls true; a noisy one gives
every tenth by chance. Each response is judged once, whatever the share and the number of questions; all of it takes
about six minutes on one core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

from systems import BROKEN, HEALTHY, SILENT, WORDINGS, Item, System, Truth

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.gather import Gathering
from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.scoring import needed_judgements, sample_scores, scored_answer
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import Judgements, Statement, StatementList
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call, JudgeIdentity
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import DEFAULT, select_metrics
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.pipeline.init.write import starter_policy
from ragstone.system.response import Context, Response

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "docs-qa" / "baseline"
FERRY = ROOT / "tests" / "corpus" / "ferry.json"
SHARES = (0.1, 0.2, 0.3, 0.5, 1.0)
SIZES = (20, 50, 139)
JUDGES = ("offline", "perfect")
"""Those of the page. `noisy` can be chosen too."""
SETS = ("docs", "ferry")
MISTAKEN = 0.1
FIRST, AGAIN = 0.5, 0.2
"""The shares of broken questions from which a first run must fail, and one with a baseline fail or be inconclusive."""

NEEDED = 50
"""Of fewer questions, nothing is required: too little can be shown."""
PAGE = ROOT / "bench" / "broken_systems.md"
BEGIN, END = "<!-- broken systems -->", "<!-- end of broken systems -->"

FOUND = {Status.FAIL, Status.ERROR, Status.INCONCLUSIVE}


@cache
def items(name: str) -> tuple[Item, ...]:
    """The questions of a set in an order by chance, with the healthy system's responses."""
    found = list(_docs() if name == "docs" else _ferry())
    random.Random(29).shuffle(found)
    answered = [one for one in found if one.sample.answerable]
    far = len(answered) // 2
    others = {one.sample.id: answered[(at + far) % len(answered)] for at, one in enumerate(answered)}
    return tuple(replace(one, other=others.get(one.sample.id, answered[0])) for one in found)


def _docs() -> Iterator[Item]:
    for record in RunDirectory.open(EXAMPLE).records():
        scores = {name: one.value for name, one in record.scores.items() if isinstance(one, Scored)}
        made = record.judgements[0].statements
        silent = isinstance(made, StatementList) and made.abstains
        truth = Truth(
            # A judge that compares words calls many right answers half right.
            correct=0.9 if scores.get("answer_correctness", 0.0) > 0.2 else 0.4,
            recall=float(scores.get("context_recall", 0.0) > 0.8),
            precision=scores.get("context_precision", 0.0),
        )
        if not record.sample.answerable:
            right = float(silent)
            truth = replace(truth, faithful=None if silent else 1.0, relevant=right, correct=right)
        elif silent:
            truth = replace(truth, **SILENT)
        sample = replace(record.sample, origin=None)
        yield Item(sample, record.response, truth, frozenset(record.sample.relevant_ids))


def _ferry() -> Iterator[Item]:
    data = json.loads(FERRY.read_text())
    passages = [Context(f"{one['title']}\n{one['text']}", f"p{rank}") for rank, one in enumerate(data["passages"])]
    for number, one in enumerate(data["questions"]):
        name, rng = f"f{number}", random.Random(number)
        rest = rng.sample(passages, 5)
        if "passage" not in one:
            sample = Sample(name, one["question"], answerable=False)
            answer = "I'm sorry, the documents don't say anything about that."
            yield Item(sample, Response(name, answer, tuple(rest[:4])), Truth(None, 1.0, 1.0, 0.0, 0.0))
            continue
        right = passages[one["passage"]]
        contexts = [context for context in rest if context is not right][:3]
        contexts.insert(int(rng.random() < 0.2), right)
        sample = Sample(name, one["question"], one["reference"])
        truth = Truth(precision=1.0 / (contexts.index(right) + 1))
        yield Item(sample, Response(name, one["answer"], tuple(contexts)), truth, frozenset({right.id}))


class Bench:
    """One set judged by one judge: `run` gives the scores of a system, each response being judged once."""

    def __init__(self, name: str, judge: str) -> None:
        self.items, self.judge = items(name), judge
        texts = [one.sample for one in self.items]
        self.metrics = select_metrics([*DEFAULT, "mrr"] if any(one.relevant_ids for one in texts) else DEFAULT)
        self._offline = OfflineJudge()
        self._known: dict[object, SampleRecord] = {}

    def run(self, system: System | None, share: float, n: int) -> RunScores:
        """The first `n` questions; `system` answers `share` of those that it is of; the healthy one does the rest."""
        chosen = self.items[:n]
        changed = {} if system is None else dict(islice(self.changed(system, n), self.times(system, share, n)))
        found = (changed.get(one.sample.id, one) for one in chosen)
        gathering = Gathering(self._manifest(n))
        for one in found:
            gathering.add(self._record(one), "bench")
        return gathering.scores(Path("bench"))

    @cache  # noqa: B019 - as few benches as sets and judges
    def baseline(self, n: int) -> RunScores:
        return self.run(None, 0.0, n)

    def changed(self, system: System, n: int) -> Iterator[tuple[str, Item]]:
        """Those of the first `n` questions that `system` answers otherwise than the healthy one, by id."""
        for one in self.items[:n]:
            if _is_of(system.of, one.sample) and (after := system.change(one)) != one:
                yield one.sample.id, after

    def times(self, system: System, share: float, n: int) -> int:
        return round(share * sum(_is_of(system.of, one.sample) for one in self.items[:n]))

    def _manifest(self, n: int) -> Manifest:
        identity = self._offline.identity if self.judge == "offline" else JudgeIdentity("openai", self.judge, "1")
        return Manifest(
            ragstone_version="1",
            state="finished",
            created_at="2026-11-23T00:00:00Z",
            golden=GoldenManifest(files=("golden.jsonl",), content_hash="0", samples=n),
            judge=identity,
            system=SystemManifest(entrypoint="bench"),
            metrics={one.info.name: one.info.version for one in self.metrics},
        )

    def _record(self, item: Item) -> SampleRecord:
        key = (item.sample, item.response.answer, item.response.contexts).__repr__()
        if key not in self._known:
            self._known[key] = asyncio.run(self._judged(item)) if self.judge == "offline" else self._told(item)
        return self._known[key]

    async def _judged(self, item: Item) -> SampleRecord:
        sample, response = item.sample, item.response
        needs, call = needed_judgements(self.metrics, sample), Call(sample.id)
        judgements = await collect_judgements(self._offline, sample, response, needs, call)
        answer = scored_answer(self.metrics, sample, response, [judgements])
        return SampleRecord(sample, (answer,), sample_scores(self.metrics, sample, [answer]))

    def _told(self, item: Item) -> SampleRecord:
        rng = random.Random(f"{item.sample.id} {item.response.answer}")
        truth, sample = item.truth, item.sample

        def seen(value: float) -> float:
            if self.judge == "perfect":
                return value
            return min(1.0, max(0.0, (rng.choice((0.0, 0.5, 1.0)) if rng.random() < MISTAKEN else value)))

        if not item.response.answer.strip():
            truth = replace(truth, **SILENT)
        values = {
            "faithfulness": truth.faithful,
            "answer_relevancy": truth.relevant,
            "answer_correctness": truth.correct,
            "context_recall": truth.recall,
            "context_precision": truth.precision,
            "hallucination": None if truth.faithful is None else float(truth.faithful < 1.0),
        }

        def score(metric: Metric) -> Score:
            if metric.info.name == "mrr":
                return metric.score(sample, item.response, Judgements())
            excuse, value = metric.excuse(sample), values.get(metric.info.name)
            if excuse is not None or value is None:
                return excuse or NotApplicable("it claims nothing")
            spread = rng.uniform(-0.06, 0.06) if metric.info.name == "answer_relevancy" and 0.0 < value < 1.0 else 0.0
            return Scored(min(1.0, max(0.0, seen(value) + spread)))

        scores = {metric.info.name: score(metric) for metric in self.metrics}
        said = () if truth.abstains else (Statement("s1", item.response.answer[:200]),)
        judgements = Judgements(statements=StatementList(said, abstains=truth.abstains))
        return SampleRecord(sample, (Answer(item.response, (judgements,), scores),), scores)


def _is_of(what: str, sample: Sample) -> bool:
    return what == "all" or sample.answerable is (what == "answerable")


@cache
def policy() -> Policy:
    return policy_from_mapping(tomllib.loads(starter_policy()))


def verdict(bench: Bench, system: System, share: float, n: int, *, first: bool) -> GateVerdict:
    """That of a first run, or with the healthy run as the baseline."""
    run = bench.run(system, share, n)
    if first:
        return decide_gate(run, None, policy())
    return decide_gate(run, run if system.always else bench.baseline(n), policy())


def found_from(system: System, bench: Bench, n: int, *, first: bool) -> str:
    """The smallest percentage of changed answers from which on the gate finds it; — if not even all of them.

    A first run must fail; one with a baseline must fail or be inconclusive. ``>29``: it can't change more, and isn't
    found.
    """
    enough = {Status.FAIL, Status.ERROR} if first else FOUND
    possible = sum(1 for _ in bench.changed(system, n)) / max(1, bench.times(system, 1.0, n))
    shares = [*(share for share in SHARES if share < possible), possible]

    def is_found(share: float) -> bool:
        return verdict(bench, system, share, n, first=first).status in enough

    at = bisect_left(shares, True, key=is_found)
    return f"{100 * shares[at]:.0f}" if at < len(shares) else "—" if possible == 1.0 else f">{100 * possible:.0f}"


Cell = tuple[str, str, int, str, bool]
"""Judge, set, number of questions (at most those of the set), system, and whether it is a first run."""


def measure(
    judges: Sequence[str],
    sets: Sequence[str],
    sizes: Sequence[int],
    only: Sequence[str],
    systems: Sequence[System] = (*HEALTHY, *BROKEN),
) -> Iterator[tuple[Cell, str]]:
    """For each broken system the share from which on it is found, and for each healthy one its verdict."""
    for judge in judges:
        for name in sets:
            bench = Bench(name, judge)
            for size in sizes:
                n = min(size, len(bench.items))
                for first in (True, False):
                    for system in (one for one in systems if any(part in one.name for part in only)):
                        if system in BROKEN:
                            yield (judge, name, size, system.name, first), found_from(system, bench, n, first=first)
                            continue
                        found = verdict(bench, system, 1.0, n, first=first)
                        reason = "" if found.status is Status.PASS else f": {found.reason}"
                        yield (judge, name, size, system.name, first), f"{found.status}{reason}"


def misses(cells: Mapping[Cell, str]) -> Iterator[str]:
    """What is not as it should be: nothing is required of fewer questions than NEEDED, nor of what can't be known."""
    broken = {one.name: one for one in BROKEN}
    for (judge, name, n, system, first), found in cells.items():
        wanted = FIRST if first else AGAIN
        if n < NEEDED or (system in broken and broken[system].unknowable):
            continue
        if system not in broken:
            is_miss = not found.startswith(str(Status.PASS))
        elif found.startswith(">"):
            is_miss = float(found[1:]) >= 100 * wanted
        else:
            is_miss = _percentage(found) > 100 * wanted
        if is_miss:
            yield f"{judge}, {name}, n = {n}, {'first run' if first else 'with a baseline'}: {system}: {found}"


def _percentage(found: str) -> float:
    """To compare: not being found is more than any."""
    return 102.0 if found == "—" else 101.0 if found.startswith(">") else float(found)


def table(cells: Mapping[Cell, str]) -> Iterator[str]:
    """Markdown: the percentages of a first run and with a baseline, worst over the sets; equal systems share a row."""
    columns = list(dict.fromkeys((judge, size) for judge, _, size, _, _ in cells))

    def row(system: str, shown: Callable[[list[str]], str]) -> str:
        shares = []
        for column in columns:
            runs = []
            for first in (True, False):
                runs.append(shown([cells[key] for key in cells if (key[0], *key[2:]) == (*column, system, first)]))
            shares.append("/".join(runs))
        return " | ".join(shares)

    names: dict[str, list[str]] = {}
    for system in (one for one in BROKEN if any(key[3] == one.name for key in cells)):
        note = f" ({system.unknowable[0].lower()}{system.unknowable[1:].rstrip('.')})" if system.unknowable else ""
        shares = row(system.name, lambda runs: max(runs, key=_percentage))
        names.setdefault(shares, []).append(f"{system.name}{note}")
    for system in (one for one in (*HEALTHY, *WORDINGS) if any(key[3] == one.name for key in cells)):
        names.setdefault(row(system.name, _worst_verdict), []).append(f"healthy: {system.name}")
    yield f"| system | {' | '.join(f'{judge}, {size}' for judge, size in columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for shares, alike in names.items():
        yield f"| {'; '.join(alike)} | {shares} |"


def _worst_verdict(found: Sequence[str]) -> str:
    kinds = {one.partition(":")[0] for one in found}
    return next((kind for kind in ("fail", "error", "inconclusive") if kind in kinds), "pass")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", nargs="*", default=JUDGES)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--only", nargs="*", default=[""], help="systems with any of these in their names")
    parser.add_argument("--wordings", action="store_true", help="only healthy answers in the phrases of assistants")
    parser.add_argument("--write", action="store_true", help="put the table into bench/broken_systems.md")
    chosen = parser.parse_args()
    begin, cells = time.perf_counter(), {}
    systems = WORDINGS if chosen.wordings else (*HEALTHY, *BROKEN)
    for cell, found in measure(chosen.judges, chosen.sets, chosen.sizes, chosen.only, systems):
        cells[cell] = found
        print(*cell, found, sep="\t", flush=True)
    lines = list(table(cells))
    if chosen.wordings:
        failing = {cell[3] for cell, found in cells.items() if found != str(Status.PASS)}
        print(f"{len(WORDINGS)} wordings, of which {len(failing)} do not pass")
    print("\n".join(["", *lines, "", "Misses:", *misses(cells), "", f"{time.perf_counter() - begin:.0f} s"]))
    if chosen.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text("\n".join([f"{before}{BEGIN}\n", *lines, f"\n{END}{after}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
