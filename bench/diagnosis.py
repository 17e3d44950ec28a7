"""Whether injected single faults are blamed rightly: the causes and the attribution of the gate.

``python bench/diagnosis.py [--samples N] [--seed N]`` prints the tables of bench/README.md. A synthetic system over
synthetic manuals (BM25, reranking by shared words, an answer made of the best passages' sentences) is run through
`ragstone.evaluate` healthy and with one fault at a time, and both runs go through `ragstone.compare`. Two judges: the
offline one, and a perfect one that knows what each sentence says; the difference is the judge's, not the logic's.

A sample is affected if the fault changed what the system returned; blamed rightly if its cause is that of the fault.
Takes a few minutes.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ragstone
from ragstone.gate.diagnosis import Cause, causes_of
from ragstone.gate.facts import facts_of
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.protocol import Judge
from ragstone.judge.scripted import ScriptedJudge

SUBJECTS = (
    *("boiler", "pump", "lathe", "kiln", "dryer", "mixer", "press", "crane", "drill", "saw", "furnace", "chiller"),
    *("conveyor", "grinder", "welder", "loader", "compressor", "generator", "turbine", "reactor", "separator"),
    *("extruder", "palletizer", "laminator", "centrifuge", "autoclave", "sterilizer", "polisher", "shredder", "baler"),
)
MAKERS = ["Arden", "Vell", "Corin", "Dunmore", "Elstow", "Farrow", "Garth", "Hollin"]
FACTS = (
    ("the service interval", "The service interval of the {} is {} months.", (3, 6, 9, 12, 18, 24)),
    ("the maximum temperature", "The {} must not run hotter than {} degrees.", (45, 60, 75, 90, 110, 130)),
    ("the oil volume", "The oil tank of the {} holds {} litres.", (2, 4, 5, 7, 9, 11)),
    ("the noise level", "The noise level of the {} is {} decibels at full load.", (58, 63, 69, 74, 79, 84)),
    ("the warranty period", "The warranty period of the {} lasts {} years.", (1, 2, 3, 4, 5, 7)),
    ("the rated power", "The rated power of the {} is {} kilowatts.", (5, 8, 12, 20, 31, 44)),
)
PADDING = (
    "Keep the working area of the {} clean and dry.",
    "Only trained staff may open the housing of the {}.",
    "Spare parts for the {} are listed in the catalogue.",
)
INVENTED = (
    "It switches itself off after {} minutes without load.",
    "The {} machines of this series were recalled in spring.",
    "Customers in {} countries have rated it best in its class.",
    "A second filter is needed from {} metres above sea level.",
)
TOP, POOL = 4, 12


@dataclass(frozen=True)
class Passage:
    """One passage, with the machine and the property that it is about."""

    id: str
    text: str
    machine: str
    about: str


@dataclass(frozen=True)
class World:
    """The manuals, the golden set, and the sentence that answers each question."""

    passages: tuple[Passage, ...]
    golden: GoldenSet
    asked: dict[str, tuple[str, str, str]]


def world(n: int, seed: int) -> World:
    fair = random.Random(seed)
    machines = [f"{maker} {subject}" for subject in SUBJECTS for maker in MAKERS]
    fair.shuffle(machines)
    passages, samples, asked = [], [], {}
    for machine in machines[: max(20, n // 2)]:
        for about, form, values in FACTS:
            fact = form.format(machine, fair.choice(values))
            text = f"{fact} {fair.choice(PADDING).format(machine)}"
            passages.append(Passage(f"{machine}/{about}".replace(" ", "-"), text, machine, about))
            asked[f"What is {about} of the {machine}?"] = (fact, machine, about)
    questions = sorted(asked)
    fair.shuffle(questions)
    for at, question in enumerate(questions[:n]):
        fact, machine, about = asked[question]
        named = f"{machine}/{about}".replace(" ", "-")
        samples.append(Sample(f"q{at}", question, reference=fact, relevant_ids={named: 1.0}))
    return World(tuple(passages), GoldenSet(tuple(samples)), asked)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


class System:
    """Retrieves by BM25, reranks by the words that question and passage share, and answers from the first passage."""

    def __init__(self, given: World, fault: str = "", seed: int = 0) -> None:
        self._world, self._fault, self._seed = given, fault, seed
        self._words = [words(passage.text) for passage in given.passages]
        counts = Counter(word for each in self._words for word in set(each))
        total = len(self._words)
        self._rarity = {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in counts.items()}

    def __call__(self, question: str) -> dict[str, object]:
        fair = random.Random(f"{self._seed} {question}")
        found = self._retrieved(question)
        if self._fault == "retriever broken":
            found = fair.sample(self._world.passages, POOL)
        ranked = found if self._fault == "retriever broken" else self._reranked(question, found)
        shown = ranked[:TOP]
        if self._fault == "reranker shuffled":
            shown = [*ranked[1:TOP], ranked[0]]
        best = shown[0].text.split(". ")[0].rstrip(".") + "."
        answer = best
        if self._fault == "generator ignores contexts":  # from memory: the right form, another value
            fact, machine, about = self._world.asked[question]
            form, values = next((form, values) for name, form, values in FACTS if name == about)
            answer = fair.choice([said for value in values if (said := form.format(machine, value)) != fact])
        if self._fault == "prompt invents":
            answer = f"{best} {fair.choice(INVENTED).format(fair.randint(13, 990))}"
        return {"answer": answer, "contexts": [{"id": one.id, "text": one.text} for one in shown]}

    def _retrieved(self, question: str) -> list[Passage]:
        asked = words(question)
        mean = sum(map(len, self._words)) / len(self._words)

        def score(at: int) -> float:
            counts, length = Counter(self._words[at]), len(self._words[at])
            return sum(
                self._rarity.get(word, 0.0) * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * length / mean))
                for word in asked
            )

        order = sorted(range(len(self._words)), key=score, reverse=True)[:POOL]
        return [self._world.passages[at] for at in order]

    def _reranked(self, question: str, found: Sequence[Passage]) -> list[Passage]:
        asked = set(words(question))
        return sorted(found, key=lambda one: len(asked & set(words(one.about + " " + one.text))), reverse=True)


FAULTS: dict[str, tuple[Cause, ...]] = {
    "retriever broken": (Cause.NOT_RETRIEVED,),
    "reranker shuffled": (Cause.RANKED_LOW,),
    "generator ignores contexts": (Cause.IGNORED, Cause.CONTRADICTED),
    "prompt invents": (Cause.INVENTED,),
}
"""Each fault, and the causes that blame it rightly. What a generator says from memory may contradict the contexts."""


def perfect(given: World, system: Callable[[str], dict[str, object]]) -> Judge:
    """A judge that knows of each answer and context which facts it states."""
    script = {}
    for sample in given.golden:
        said = system(sample.question)
        contexts = [str(one["text"]) for one in said["contexts"]]  # type: ignore[attr-defined]
        sentences = [part.rstrip(".") + "." for part in str(said["answer"]).split(". ")]
        statements = tuple(Statement(f"s{at}", text) for at, text in enumerate(sentences, 1))
        held = {
            one.id: tuple(f"c{at}" for at, text in enumerate(contexts, 1) if one.text in text) for one in statements
        }
        fact = str(sample.reference)
        useful = [fact in text for text in contexts]
        reference = (Statement("r1", fact),)
        where = tuple(f"c{at}" for at, one in enumerate(useful, 1) if one)
        script[sample.id] = Judgements(
            statements=StatementList(statements, abstains=False),
            support=SupportTable(tuple(_support(one.id, held[one.id]) for one in statements)),
            context_use=ContextUse(
                tuple(ContextUsefulness(f"c{at}", one) for at, one in enumerate(useful, 1)),
                against_reference=True,
                reference_statements=reference,
                attributions=(_support("r1", where),),
            ),
            reference_match=ReferenceMatch(
                reference,
                tuple(_support(one.id, ("r1",) if one.text == fact else ()) for one in statements),
                (_support("r1", ("s1",) if fact in sentences else ()),),
            ),
            reverse_questions=ReverseQuestions(("?",), (1.0 if fact in sentences else 0.3,)),
        )
    return ScriptedJudge(script)


def _support(name: str, by: tuple[str, ...]) -> Support:
    return Support(name, Verdict.SUPPORTED if by else Verdict.UNSUPPORTED, by)


METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision", "answer_correctness")


@dataclass(frozen=True)
class Result:
    """One fault under one judge: the affected samples, those blamed rightly, and what the report says."""

    fault: str
    judge: str
    affected: int
    right: int
    status: str
    said: str
    side: str


def measure(given: World, fault: str, judge_name: str, folder: Path) -> Result:
    healthy, broken = System(given), System(given, fault)
    runs = []
    for name, system in (("healthy", healthy), ("broken", broken)):
        judge: str | Judge = perfect(given, system) if judge_name == "perfect" else "offline"
        out = folder / f"{judge_name}-{fault}-{name}".replace(" ", "-")
        runs.append(ragstone.evaluate(given.golden, system, judge, METRICS, out=out, progress=False))
    before, after = runs
    verdict = ragstone.compare(after, before)
    now = {record.sample.id: record for record in after.directory.records()}
    then = {record.sample.id: record for record in before.directory.records()}
    affected = [i for i in now if (now[i].response.answer, _ids(now[i])) != (then[i].response.answer, _ids(then[i]))]
    right = sum(causes_of(facts_of(now[i], then[i]))[:1] in [(cause,) for cause in FAULTS[fault]] for i in affected)
    counts = verdict.diagnosis.counts if verdict.diagnosis is not None else ()
    said = "; ".join(f"{len(one.samples)} {one.title}" for one in counts[:3])
    side = verdict.attribution.side.value if verdict.attribution is not None else "none"
    return Result(fault, judge_name, len(affected), right, verdict.status.value, said, side)


def _ids(record: ragstone.Run | object) -> tuple[str | None, ...]:
    return tuple(context.id for context in record.response.contexts)  # type: ignore[union-attr]


def results(samples: int, seed: int) -> list[Result]:
    given = world(samples, seed)
    with tempfile.TemporaryDirectory(prefix="ragstone-diagnosis-") as folder:
        return [measure(given, fault, judge, Path(folder)) for judge in ("perfect", "offline") for fault in FAULTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print("| judge | fault | verdict | blamed rightly | half | causes of the worse samples |")
    print("|---|---|---|---|---|---|")
    found = results(chosen.samples, chosen.seed)
    for one in found:
        share = f"{one.right} of {one.affected} ({one.right / one.affected:.0%})"
        print(f"| {one.judge} | {one.fault} | {one.status} | {share} | {one.side} | {one.said} |")
    for judge in ("perfect", "offline"):
        of = [one for one in found if one.judge == judge]
        print(f"{judge}: {sum(one.right for one in of) / sum(one.affected for one in of):.1%} of all cases")


if __name__ == "__main__":
    main()
