"""Policies, golden sets, baselines, judges and systems: what `ragstone gate` and `ragstone compare` decide."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tests.cli.project import BROKEN as BROKEN_HOUSES
from tests.cli.project import LINES_OFF, ONE_DROP, SYSTEM, change_rows, commit, git, make_project, start, wait_for_lines
from tests.corpus import ferry
from tests.corpus.changes import BROKEN, GENERATION_FAULTS, HARMLESS, changed
from tests.corpus.ferry import Question, Reply
from tests.corpus.outcome import Outcome
from tests.corpus.workbench import ANSWERS, GOLDEN, POLICY, Registry, Steps, Workbench
from tests.judge.conftest import FakeLlm, Loop, fill_in

CASES = Registry()
CUT = changed(ferry.replies(), GENERATION_FAULTS["answers are cut at a length"])
INVENTED = changed(ferry.replies(), BROKEN["invents everything"])
SLIGHTLY_INVENTED = changed(ferry.replies(), BROKEN["adds an invented sentence"], 0.1)
SUSPECTED = changed(ferry.replies(), BROKEN["adds an invented sentence"], 0.08)


# -- floors, drops and what is done about them -------------------------------------------------------------------------


def _compared(policy: str, replies: Sequence[Reply], arguments: Sequence[str], bench: Workbench) -> Steps:
    """Compared with the healthy system under a policy of its own."""
    bench.ferry(replies, policy)
    return {"gate": bench.gate(*arguments, baseline=bench.ferry_baseline)}


def _first(policy: str, replies: Sequence[Reply], arguments: Sequence[str], bench: Workbench) -> Steps:
    """The same without a baseline."""
    bench.ferry(replies, policy)
    return {"first run": bench.gate(*arguments)}


HEALTHY = ferry.replies()
FAITHFULNESS = "[gate]\nonly_named = true\n[metrics.faithfulness]\n"
UNCERTAIN = "[metrics.answer_correctness]\nmin = 0.89\n"
"""A floor just above the mean of the healthy system."""
WARNS = '[metrics.answer_correctness]\nmin = 0.99\naction = "warn"\n'
ASSURED = '[gate]\ndecision = "assured"\n[metrics.faithfulness]\n'
SMALL_DROP = "[metrics.faithfulness]\nmax_drop = 0.02\n"
CASES.table(
    "policy, first run",
    _first,
    {
        "without a file": ("", HEALTHY, ()),
        "a floor that holds": ("[metrics.faithfulness]\nmin = 0.8\n", HEALTHY, ()),
        "a floor that fails": ("[metrics.answer_correctness]\nmin = 0.99\n", HEALTHY, ()),
        "a floor that warns": (WARNS, HEALTHY, ()),
        "a floor that is assured": (f"{ASSURED}min = 0.8\n", HEALTHY, ()),
        "a floor that is not assured": (f"{ASSURED}min = 0.93\n", HEALTHY, ()),
        "a ceiling": ("[metrics.hallucination]\nmax = 0.01\n", HEALTHY, ()),
        "only what is named": ("[gate]\nonly_named = true\n[metrics.context_recall]\nmin = 0.8\n", HEALTHY, ()),
        "an unknown metric": ("[metrics.faithfullness]\nmin = 0.8\n", HEALTHY, ()),
        "an unknown key": ("[gate]\nmin_coverge = 0.9\n", HEALTHY, ()),
        "no baseline fails": (f'[gate]\non_no_baseline = "fail"\n{SMALL_DROP}', HEALTHY, ()),
        "no baseline warns": (f'[gate]\non_no_baseline = "warn"\n{SMALL_DROP}', HEALTHY, ()),
        "a floor that can't be decided": (UNCERTAIN, HEALTHY, ()),
        "inconclusive fails": (f'[gate]\ninconclusive = "fail"\n{UNCERTAIN}', HEALTHY, ()),
        "inconclusive passes": (f'[gate]\ninconclusive = "pass"\n{UNCERTAIN}', HEALTHY, ()),
        "fail on inconclusive": (UNCERTAIN, HEALTHY, ("--fail-on", "inconclusive")),
    },
)
LOSS = "[metrics.faithfulness]\nmax_drop = 0.01\n"
NAMED = f"[gate]\nonly_named = true\n{LINES_OFF}"
CASES.table(
    "policy",
    _compared,
    {
        "a drop fails": ("[metrics.answer_correctness]\nmax_drop = 0.02\n", CUT, ()),
        "a drop that is allowed": (f"{NAMED}max_drop = 0.9\n", CUT, ()),
        "a drop that warns": (f'{NAMED}max_drop = 0.02\naction = "warn"\n', CUT, ()),
        "only one metric": (f"{FAITHFULNESS}max_drop = 0.01\n", SLIGHTLY_INVENTED, ()),
        "a suspicion": (LOSS, SUSPECTED, ()),
        "assured": (f"{ASSURED}max_drop = 0.05\n", SUSPECTED, ()),
        "less confidence": (f"[gate]\nconfidence = 0.8\n{LOSS}", SUSPECTED, ()),
        "never fail": (POLICY, INVENTED, ("--fail-on", "never")),
        "a rise": ("[metrics.hallucination]\nmax_rise = 0.02\n", INVENTED, ()),
        "few samples, healthy": (POLICY, HEALTHY, ("--limit", "12")),
        "few samples, broken": (POLICY, INVENTED, ("--limit", "12")),
        "few samples, slightly worse": (POLICY, SLIGHTLY_INVENTED, ("--limit", "20")),
    },
)


# -- slices and samples that must pass ---------------------------------------------------------------------------------


def _kind(question: Question) -> list[str]:
    """Tags: by the subject, and whether it can be answered."""
    subject = f"subject-{int((question.passage_id or 'p0')[1:]) % 3}"
    return [subject] if question.answerable else ["unanswerable"]


def _worse_in_one_slice(change: str) -> list[Reply]:
    return [
        worse if _kind(reply.question) == ["subject-1"] else reply
        for reply, worse in zip(HEALTHY, changed(HEALTHY, BROKEN[change]), strict=True)
    ]


def _slices(policy: str, replies: Sequence[Reply], bench: Workbench) -> Steps:
    bench.ferry(policy=POLICY)
    bench.questions(ferry.questions(), tags=_kind)
    first = bench.gate(out="main")
    bench.policy(policy)
    bench.replies(replies)
    return {"first run": first, "gate": bench.gate(baseline="main")}


ONE_INVENTS = _worse_in_one_slice("invents everything")
FLOOR_OF_ONE = f'{POLICY}[slices.subject-1.metrics.faithfulness]\nmin = 0.8\naction = "block"\n'
CASES.table(
    "slices",
    _slices,
    {
        "unchanged": (POLICY, HEALTHY),
        "one tag is worse": (POLICY, ONE_INVENTS),
        "one tag retrieves nothing": (POLICY, _worse_in_one_slice("retrieves nothing")),
        "a drop that is allowed over all, and not in one tag": (
            f"{FAITHFULNESS}max_drop = 0.4\n[system]\nmax_broken = 1.0\n",
            ONE_INVENTS,
        ),
        "a floor of one tag": (FLOOR_OF_ONE, _worse_in_one_slice("adds an invented sentence")),
        "a rule of a tag that is not there": (f"{POLICY}[slices.none.metrics.mrr]\nmin = 0.8\n", HEALTHY),
    },
)


_A_FIFTH_INVENTED = changed(HEALTHY, BROKEN["invents everything"], 0.2)
_WORSE = [
    worse.question.id for reply, worse in zip(HEALTHY, _A_FIFTH_INVENTED, strict=True) if worse.answer != reply.answer
]


def _must_pass(policy: str, bench: Workbench) -> Steps:
    bench.ferry(_A_FIFTH_INVENTED, policy)
    worse = bench.gate()
    bench.replies(HEALTHY)
    return {"some are worse": worse, "healthy": bench.gate()}


LOW_FLOOR = "[metrics.faithfulness]\nmin = 0.5\n"
CASES.table(
    "must pass",
    _must_pass,
    {
        "two samples": (f"must_pass = {json.dumps(_WORSE[:2])}\n{LOW_FLOOR}",),
        "all samples": (f'must_pass = "all"\n{LOW_FLOOR}',),
        "a sample that is not there": (f'must_pass = ["f999"]\n{LOW_FLOOR}',),
        "that warn": (f'{POLICY}[must_pass]\nsamples = {json.dumps(_WORSE[:3])}\nmin = 0.5\naction = "warn"\n',),
    },
)


@CASES.case("must pass: bounds of samples")
def _bounds_of_samples(bench: Workbench) -> Steps:
    bench.ferry(_A_FIFTH_INVENTED)
    bench.questions(
        ferry.questions(),
        min=lambda question: {"faithfulness": 0.5} if question.id in (*_WORSE[:2], "f1", "f2") else None,
        max=lambda question: {"hallucination": 0.5} if question.id in (*_WORSE[2:4], "f7", "f8") else None,
    )
    return {"first run": bench.gate()}


# -- limits of the system ----------------------------------------------------------------------------------------------


def _timed(seconds: float) -> list[Reply]:
    return [replace(reply, latency_s=seconds + number / 100) for number, reply in enumerate(HEALTHY)]


def _failing(share: float) -> list[Reply]:
    """Each of the first questions ends with an error."""
    count = round(share * len(HEALTHY))
    return [replace(reply, error="ValueError: no index") if at < count else reply for at, reply in enumerate(HEALTHY)]


def _broken(change: str, share: float = 1.0) -> list[Reply]:
    return changed(HEALTHY, BROKEN[change], share)


CASES.table(
    "limits",
    _first,
    {
        "latency holds": ("[system]\nlatency_p95_s = 2.0\n", _timed(0.2), ()),
        "latency is exceeded": ("[system]\nlatency_p95_s = 2.0\n", _timed(1.9), ()),
        "latency warns": ('[system]\nlatency_p95_s = 2.0\naction = "warn"\n', _timed(5.0), ()),
        "one error is allowed": (POLICY, _failing(1 / 64), ()),
        "no error is allowed": ("[system]\nmax_error_rate = 0.0\n", _failing(1 / 64), ()),
        "a fifth ends with errors": (POLICY, _failing(0.2), ()),
        "everything ends with errors": (POLICY, _failing(1.0), ()),
        "answers are missing": (POLICY, HEALTHY[:40], ()),
        "empty answers": ("[system]\nmax_empty = 0.05\n", _broken("empty answers", 0.15), ()),
        "unanswered questions": ("[system]\nmax_unanswered = 0.1\n", _broken("doesn't know in two wordings", 0.25), ()),
        "guessed answers": ("[system]\nmax_guessed = 0.1\n", _broken("answers the unanswerable inventing"), ()),
        "the fruitless share": ("[system]\nmax_fruitless = 0.1\n", _broken("retrieves nothing", 0.25), ()),
        "the fruitless share is allowed": (f"{POLICY}{LINES_OFF}", _broken("retrieves nothing", 0.25), ()),
    },
)


def _cost(policy: str, tokens: int, bench: Workbench) -> Steps:
    """From one answer to the next, the system uses more tokens: from 1 to 64 times `tokens`."""
    bench.ferry(policy=policy)
    bench.config("[system.price]\ninput = 1.0\noutput = 4.0\n")
    usages = ({"input_tokens": tokens * n, "output_tokens": tokens * n // 4} for n in range(1, len(HEALTHY) + 1))
    bench.write_rows(ANSWERS, ({**reply.row(), "usage": usage} for reply, usage in zip(HEALTHY, usages, strict=True)))
    return {"first run": bench.gate()}


TOKENS, COST = "[system]\ntokens_mean = 2000\n", "[system]\ncost_mean_usd = 0.01\n"
CASES.table("limits", _cost, {"tokens hold": (TOKENS, 40), "tokens are exceeded": (TOKENS, 200)})
CASES.table("limits", _cost, {"cost holds": (COST, 40), "cost is exceeded": (COST, 400)})


# -- golden sets -------------------------------------------------------------------------------------------------------


@CASES.case("golden set: columns in JSON, without ids")
def _columns(bench: Workbench) -> Steps:
    """The answers are found by their questions."""
    bench.ferry()
    bench.write("golden.json", json.dumps(_COLUMNS))
    rows = [{**reply.row(), "question": reply.question.text} for reply in HEALTHY]
    bench.write_rows(ANSWERS, [{name: row[name] for name in ("question", "answer", "contexts")} for row in rows])
    return {"first run": bench.gate(golden="golden.json")}


def _golden_file(name: str, text: str, bench: Workbench) -> Steps:
    """A golden set in another format, compared with the same one in the native format."""
    bench.ferry()
    bench.write(name, text)
    return {"gate": bench.gate(golden=name, baseline=bench.ferry_baseline)}


def _table(rows: Iterable[dict[str, Any]], delimiter: str) -> str:
    lines = list(rows)
    columns = list(dict.fromkeys(column for row in lines for column in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


_ROWS = [question.row() for question in ferry.questions()]
_COLUMNS = {
    "questions": [row["question"] for row in _ROWS],
    "ground_truths": [row.get("reference", "") for row in _ROWS],
}
CASES.table(
    "golden set",
    _golden_file,
    {
        "CSV": ("golden.csv", _table(_ROWS, ",")),
        "TSV": ("golden.tsv", _table(_ROWS, "\t")),
        "a JSON list": ("golden.json", json.dumps(_ROWS)),
        "a duplicate id": ("golden.json", json.dumps([*_ROWS, _ROWS[0]])),
        "no question": ("golden.json", json.dumps([{"id": "a", "reference": "b"}])),
        "not JSON": ("golden.json", "[{"),
        "empty": ("golden.jsonl", ""),
    },
)


@CASES.case("golden set: the columns of ragas")
def _ragas_columns(bench: Workbench) -> Steps:
    """One table is golden set and recorded answers."""
    bench.policy(POLICY)
    rows = []
    for reply in (one for one in HEALTHY if one.question.answerable):
        asked = {"user_input": reply.question.text, "reference": reply.question.reference}
        contexts = [passage.text for passage in reply.contexts]
        rows.append({**asked, "response": reply.answer, "retrieved_contexts": contexts})
    bench.write("eval.json", json.dumps(rows))
    return {"first run": bench.gate(golden="eval.json", entrypoint="file:eval.json")}


@CASES.case("golden set: two files and a glob")
def _two_files(bench: Workbench) -> Steps:
    bench.ferry()
    bench.write_rows("golden/a.jsonl", _ROWS[:30])
    bench.write_rows("golden/b.jsonl", _ROWS[30:])
    return {"gate": bench.gate(golden="golden/*.jsonl", baseline=bench.ferry_baseline)}


def _edited(
    questions: Sequence[Question], replies: Sequence[Reply], policy: str, fields: dict[str, Any], bench: Workbench
) -> Steps:
    """The golden set was edited since the baseline; `fields` are labels in all its rows."""
    bench.ferry(replies, policy)
    bench.questions(questions, **fields)
    return {"gate": bench.gate(baseline=bench.ferry_baseline)}


_QUESTIONS = ferry.questions()
_REWORDED = [replace(question, text=f"Please tell me: {question.text}") for question in _QUESTIONS]
_OTHER_IDS = {question.id: other.id for question, other in pairwise((*_QUESTIONS, _QUESTIONS[0]))}


def _reordered(question: Question) -> Question:
    """The question under the id of the next one."""
    return replace(question, id=_OTHER_IDS[question.id])


def _renamed(question: Question) -> Question:
    return replace(question, id=f"other-{question.id}")


def _asked_as(name: Callable[[Question], Question], replies: Sequence[Reply] = HEALTHY) -> list[Reply]:
    return [replace(reply, question=name(reply.question)) for reply in replies]


_REORDERED = [_reordered(question) for question in _QUESTIONS]
_MORE = [
    replace(question, id=f"new-{question.id}", text=f"{question.text} (as of today)") for question in _QUESTIONS[:10]
]
_MORE_REPLIES = [replace(reply, question=more) for reply, more in zip(HEALTHY, _MORE, strict=False)]
CASES.table(
    "edited golden set",
    _edited,
    {
        "three removed": (_QUESTIONS[3:], HEALTHY, POLICY, {}),
        "three reworded": ((*_REWORDED[:3], *_QUESTIONS[3:]), HEALTHY, POLICY, {}),
        "three reworded, and broken": ((*_REWORDED[:3], *_QUESTIONS[3:]), (*INVENTED[:3], *HEALTHY[3:]), POLICY, {}),
        "all ids in another order": (_REORDERED, _asked_as(_reordered), POLICY, {}),
        "all ids in another order, and broken": (_REORDERED, _asked_as(_reordered, INVENTED), POLICY, {}),
        "an eighth removed": (_QUESTIONS[8:], HEALTHY, POLICY, {}),
        "a third removed": (_QUESTIONS[21:], HEALTHY, POLICY, {}),
        "a third removed, and that allowed": (_QUESTIONS[21:], HEALTHY, "[gate]\nmax_edited = 0.5\n", {}),
        "a third removed, and broken": (_QUESTIONS[21:], INVENTED, POLICY, {}),
        "ten added": ((*_QUESTIONS, *_MORE), (*HEALTHY, *_MORE_REPLIES), POLICY, {}),
        "ten added, and broken": ((*_QUESTIONS, *_MORE), (*INVENTED, *_MORE_REPLIES), POLICY, {}),
        "every question reworded": (_REWORDED, HEALTHY, POLICY, {}),
        "other ids": ([_renamed(question) for question in _QUESTIONS], _asked_as(_renamed), POLICY, {}),
    },
)


def _relevant(question: Question) -> dict[str, int] | None:
    return {question.passage_id: 1} if question.passage_id is not None else None


def _longer_reference(question: Question) -> str | None:
    return f"{question.reference} So it is." if question.answerable else None


_NO_CONTEXTS = _broken("retrieves nothing")
_RELEVANT = {"relevant_ids": lambda one: [one.passage_id] if one.answerable else None}
CASES.table(
    "edited labels",
    _edited,
    {
        "tags": (_QUESTIONS, HEALTHY, POLICY, {"tags": ["new"]}),
        "tags, and broken": (_QUESTIONS, _NO_CONTEXTS, POLICY, {"tags": ["new"]}),
        "ids of relevant passages": (_QUESTIONS, HEALTHY, POLICY, _RELEVANT),
        "groups": (_QUESTIONS, HEALTHY, POLICY, {"group": lambda one: one.passage_id}),
        "references, and broken": (_QUESTIONS, INVENTED, POLICY, {"reference": _longer_reference}),
    },
)


# -- retrieval, conversations, halves of a system ----------------------------------------------------------------------


def _retrieval(fault: str, bench: Workbench) -> Steps:
    bench.ferry(policy='[metrics.mrr]\nmin = 0.5\nmax_drop = 0.05\n[metrics."recall@3"]\nmin = 0.6\nmax_drop = 0.05\n')
    bench.questions(_QUESTIONS, relevant_ids=_relevant)
    metrics = ("--metrics", "mrr,ndcg@10,recall@3,precision@3,average_precision,hit_rate@1")
    first = bench.gate(*metrics, out="main")
    bench.replies(ferry.replies(fault))
    return {"first run": first, "gate": bench.gate(*metrics, baseline="main")}


for _fault in ("top k is 1", "the reranker is reversed", "embeddings are shuffled"):
    CASES.add(f"retrieval by qrels: {_fault}", _retrieval, _fault)


@CASES.case("lexical metrics")
def _lexical(bench: Workbench) -> Steps:
    bench.ferry(CUT, "[metrics.token_f1]\nmin = 0.3\n")
    metrics = "token_f1,exact_match,citation_validity,top_context_used,context_utilization"
    return {"first run": bench.gate("--metrics", metrics)}


def _python(bench: Workbench, system: str, n: int, **fields: Any) -> None:
    """A project with a Python system, which is asked."""
    make_project(bench.folder, n=n, system=system, policy=POLICY)
    change_rows(bench.folder, lambda row: {**row, **{name: value(row) for name, value in fields.items()}})


def _asked(bench: Workbench, *arguments: str, **options: Any) -> Outcome:
    """The gate on a project whose config file says everything."""
    return bench.gate(*arguments, golden=None, entrypoint=None, **options)


def _then(system: str, bench: Workbench) -> Steps:
    """A first run, and another one after a change of the system."""
    first = _asked(bench, out="main")
    bench.write("houses.py", system)
    return {"first run": first, "gate": _asked(bench, baseline="main")}


CONFIG = '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "python:houses:answer"\nconcurrency = 1\n'


@CASES.case("conversations")
def _conversations(bench: Workbench) -> Steps:
    """A follow-up question is understood by its earlier turns; later, the system forgets them."""
    history = [{"role": "user", "content": "I look for a house."}, {"role": "assistant", "content": "Which one?"}]
    listening = SYSTEM.replace("def answer(question):", "def answer(question, history):").replace(
        "    fact = ",
        "    if len(history) != 2: return {'answer': 'Which one do you mean?', 'contexts': []}\n    fact = ",
    )
    _python(bench, listening, 20, history=lambda row: history)
    return _then(listening.replace("len(history) != 2", "history"), bench)


@CASES.case("a retriever alone")
def _retriever(bench: Workbench) -> Steps:
    source = f"{SYSTEM}\n\ndef retrieve(question):\n    return answer(question)['contexts']\n"
    _python(bench, source, 20, reference_contexts=lambda row: [row["reference"]])
    bench.config(CONFIG.replace(":answer", ":retrieve").replace("[system]", '[system]\npart = "retrieval"'))
    return _then(source.replace("['contexts']", "['contexts'][1:]"), bench)


@CASES.case("a generator alone")
def _generator(bench: Workbench) -> Steps:
    source = "def answer(question, contexts):\n    return contexts[0] if contexts else 'I do not know.'\n"
    _python(bench, source, 20, reference_contexts=lambda row: [row["reference"]])
    bench.config(CONFIG.replace("[system]", '[system]\npart = "generation"'))
    return _then(source.replace("contexts[0] if", "'Bananas are purple, ' + question if"), bench)


@CASES.case("oracle retrieval")
def _oracle(bench: Workbench) -> Steps:
    """Retrieval fails for every fourth house, and the generator for every sixth."""
    source = (
        f"{SYSTEM}\n_FACTS = answer\n\n\ndef answer(question, contexts=None):\n"
        "    number = int(question.split()[-1].rstrip('?'))\n"
        "    if contexts is None:\n"
        "        contexts = [_FACTS(question)['answer'] if number % 4 else 'Rain is expected.']\n"
        "    return {'answer': contexts[0] if number % 6 else 'It stands at a road.', 'contexts': contexts}\n"
    )
    _python(bench, source, 24, reference_contexts=lambda row: [row["reference"]])
    bench.config(f"{CONFIG}[run]\noracle = true\n")
    return {"first run": _asked(bench)}


@CASES.case("a metric of one's own")
def _own_metric(bench: Workbench) -> Steps:
    _python(bench, SYSTEM, 20)
    bench.write("checks.py", "def short(answer):\n    return len(answer) < 40\n")
    bench.config(f'{CONFIG}[metrics.short]\npython = "checks.py:short"\n[run]\nmetrics = ["faithfulness", "short"]\n')
    bench.policy("[metrics.short]\nmin = 0.5\n")
    return _then(SYSTEM.replace("is painted", "has been painted all over with"), bench)


# -- a system that is asked more than once -----------------------------------------------------------------------------

UNSTEADY = """
import json
from collections import Counter

ASKED = Counter()


def answer(question):
    number = int(question.split()[-1].rstrip("?"))
    fact = f"House number {number} is painted {['red', 'green', 'blue', 'white', 'yellow'][number % 5]}."
    ASKED[number] += 1
    bad = BAD
    return {"answer": f"Bananas were invented in 18{number} by the committee." if bad else fact, "contexts": [fact]}
"""


def _facts(n: int, before: str, bad: str, rules: str, bench: Workbench) -> Steps:
    """`n` questions to a system whose answers were bad where `before` says, and are where `bad` does."""
    _python(bench, UNSTEADY.replace("BAD", before), n)
    bench.config(CONFIG)
    bench.policy(rules)
    return _then(UNSTEADY.replace("BAD", bad), bench)


AGAIN = ONE_DROP + LINES_OFF
"""A drop is suspected, and the system is asked again before the gate decides."""
CASES.table(
    "asked again",
    _facts,
    {
        "a loss by chance": (40, "False", "number % 7 == 0 and ASKED[number] == 1", AGAIN),
        "a loss that is confirmed": (40, "False", "number % 7 == 0", AGAIN),
        "a loss in every second answer": (40, "False", "number % 4 == 0 and ASKED[number] % 2", AGAIN),
    },
)
FLOOR = "[metrics.faithfulness]\nmin = 0.78\n"
BASELINE_MUST_PASS = f'must_pass = "baseline"\n{LOW_FLOOR}'
CASES.table(
    "facts",
    _facts,
    {
        "one of fifteen broke": (15, "False", "number == 4", SMALL_DROP),
        "two of fifteen broke": (15, "False", "number in (4, 9)", SMALL_DROP),
        "three of fifteen broke": (15, "False", "number in (4, 9, 12)", SMALL_DROP),
        "three questions, all broke": (3, "False", "True", SMALL_DROP),
        "ten broke and ten were mended": (60, "number % 12 in (1, 4)", "(number - 1) % 12 in (1, 4)", SMALL_DROP),
        "four of twelve below a floor": (12, "False", "number % 3 == 1", FLOOR),
        "a floor, missed by chance": (12, "False", "number % 3 == 1 and ASKED[number] == 1", FLOOR),
        "must pass what passed": (20, "number == 3", "number in (3, 7)", BASELINE_MUST_PASS),
        "must pass what passed, by chance": (20, "False", "number == 7 and ASKED[number] == 1", BASELINE_MUST_PASS),
    },
)


@CASES.case("several answers to each question")
def _several_answers(bench: Workbench) -> Steps:
    _python(bench, UNSTEADY.replace("BAD", "False"), 20)
    bench.config(f"{CONFIG}[run]\nanswers = 3\n")
    return _then(UNSTEADY.replace("BAD", "number % 3 == 0 and ASKED[number] % 2"), bench)


@CASES.case("several judgements of each answer")
def _several_judgements(bench: Workbench) -> Steps:
    bench.ferry(INVENTED)
    bench.config("[run]\nrepeats = 2\n")
    return {"gate": bench.gate(baseline=bench.ferry_baseline)}


# -- baselines ---------------------------------------------------------------------------------------------------------


def _baseline(name: str, bench: Workbench) -> Steps:
    """What may not be the baseline."""
    bench.ferry(INVENTED)
    bench.gate(out="failed")
    bench.write("damaged/manifest.json", "{}")
    bench.questions([replace(one, id=f"x{one.id}", text=f"{one.text} Or not?") for one in _QUESTIONS[:20]])
    bench.replies(_asked_as(lambda one: replace(one, id=f"x{one.id}"), HEALTHY[:20]))
    bench.gate(out="another")
    bench.ferry()
    return {"gate": bench.gate(baseline=name)}


for _name in ("nowhere", "failed", "damaged", "another"):
    CASES.add(f"baseline: {_name}", _baseline, _name)


@CASES.case("baseline: with other metrics")
def _other_metrics(bench: Workbench) -> Steps:
    """The baseline's answers are judged again for what it does not have."""
    bench.ferry()
    bench.gate("--metrics", "faithfulness", out="main")
    bench.replies(INVENTED)
    return {"gate": bench.gate(baseline="main")}


@CASES.case("accepted drop")
def _accepted(bench: Workbench) -> Steps:
    """A drop is refused, accepted, larger than accepted, merged and spent."""
    metrics = ("--metrics", "token_f1")
    bench.ferry(policy="[metrics.token_f1]\nmax_drop = 0.02\n")
    bench.gate(*metrics, out="main")
    bench.replies(changed(HEALTHY, HARMLESS["verbose"], 0.4))
    refused = bench.gate(*metrics, baseline="main")
    code = bench.command("accept", "ragstone-run", "--metric", "token_f1", "--reason", "a tenth of the price")
    accepted = bench.gate(*metrics, baseline="main", out="merged")
    bench.replies(changed(HEALTHY, HARMLESS["verbose"], 0.7))
    larger = bench.gate(*metrics, baseline="main")
    spent = bench.gate(*metrics, baseline="merged")
    return {"refused": refused, "accept": {"exit": code}, "accepted": accepted, "larger": larger, "spent": spent}


@CASES.case("accepted edit of the golden set")
def _accepted_edit(bench: Workbench) -> Steps:
    bench.ferry()
    bench.gate(out="main")
    bench.questions(_QUESTIONS[21:])
    refused = bench.gate(baseline="main")
    code = bench.command("accept", "ragstone-run", "--metric", "golden set", "--reason", "the old product is gone")
    return {"refused": refused, "accept": {"exit": code}, "accepted": bench.gate(baseline="main")}


@CASES.case("accepted rise of a guard")
def _accepted_rise(bench: Workbench) -> Steps:
    """An order of contexts in which the evidence ranks lower is refused, accepted, and passes."""
    bench.ferry()
    bench.replies(changed(HEALTHY, BROKEN["ranks its contexts in reverse"]))
    refused = bench.gate(baseline=bench.ferry_baseline)
    code = bench.command("accept", "ragstone-run", "--metric", "system.misranked", "--reason", "the newest comes first")
    return {"refused": refused, "accept": {"exit": code}, "accepted": bench.gate(baseline=bench.ferry_baseline)}


def _repository(bench: Workbench) -> None:
    """A git repository with one commit of a good system."""
    make_project(bench.folder, n=20, policy=LINES_OFF + ONE_DROP)
    bench.write(".gitignore", "ragstone-run*\n")
    git(bench.folder, "init", "--quiet", "--initial-branch", "main")
    commit(bench.folder, "base")


def _base_commit(systems: Sequence[str], bench: Workbench) -> Steps:
    """The systems are committed, one after the other, and the one of the commit before is asked in the same job."""
    _repository(bench)
    for system in systems:
        commit(bench.folder, system=system)
    return {"gate": _asked(bench, "--baseline-commit", "HEAD~1")}


REMARK = "\n# A remark.\n"
CASES.add("base commit: broken", _base_commit, [BROKEN_HOUSES])
CASES.add("base commit: harmless", _base_commit, [SYSTEM + REMARK])
CASES.add("base commit: both are broken", _base_commit, [BROKEN_HOUSES, BROKEN_HOUSES + REMARK])


@CASES.case("base commit: does not start")
def _does_not_start(bench: Workbench) -> Steps:
    steps = _base_commit(["import no_such_module\n", SYSTEM], bench)
    return {**steps, "unknown": _asked(bench, "--baseline-commit", "nowhere")}


@CASES.case("base commit: starved")
def _starved(bench: Workbench) -> Steps:
    """The base fails on most questions, so the change is compared on too few."""
    failing = '    if not question.endswith(("1?", "2?")): raise TimeoutError("no connection left")\n    fact = '
    _repository(bench)
    commit(bench.folder, system=SYSTEM.replace("    fact = ", failing))
    commit(bench.folder, system=BROKEN_HOUSES)
    bench.policy(f"{LINES_OFF}{ONE_DROP}".replace("[gate]\n", '[gate]\ninconclusive = "pass"\n'))
    return {"gate": _asked(bench, "--baseline-commit", "HEAD~1", "--fail-on", "never")}


# -- runs that end too early -------------------------------------------------------------------------------------------


@CASES.case("interrupted and resumed")
def _resumed(bench: Workbench) -> Steps:
    """A killed run is resumed, and decides as the whole one."""
    slow = SYSTEM.replace("def answer(question):", "import time\ndef answer(question):\n    time.sleep(0.01)")
    _python(bench, slow, 100)
    whole = _asked(bench, out="whole")
    with start(["gate"], bench.folder) as process:
        wait_for_lines(bench.folder / "ragstone-run" / "samples.jsonl", 20)
        process.kill()
    resumed = _asked(bench, "--resume")
    bench.write_rows(GOLDEN, [question.row() for question in _QUESTIONS])
    return {"whole": whole, "resumed": resumed, "resumed with another golden set": _asked(bench, "--resume")}


@CASES.case("a system that crashes")
def _crashes(bench: Workbench) -> Steps:
    crashing = SYSTEM.replace("    fact = ", "    if question.endswith('7?'): import os; os._exit(3)\n    fact = ")
    _python(bench, crashing, 40)
    some = _asked(bench)
    bench.write("houses.py", "import no_such_module\n")
    return {"on some questions": some, "at once": _asked(bench)}


# -- judges ------------------------------------------------------------------------------------------------------------


def _strict(schema: Any, prompt: str) -> Any:
    """Every statement is unsupported."""
    filled = fill_in(schema, prompt)
    for verdict in filled.get("verdicts", ()):
        verdict |= {"verdict": "unsupported", "evidence": []}
    return filled


def _lenient(schema: Any, prompt: str) -> Any:
    """Every statement is supported, the planted wrong ones too."""
    filled = fill_in(schema, prompt)
    for verdict in filled.get("verdicts", ()):
        verdict |= {"verdict": "supported"}
    return filled


def _judged(judge: FakeLlm, bench: Workbench, *arguments: str, **options: Any) -> Outcome:
    env = {"RAGSTONE_JUDGE_BASE_URL": f"{judge.url}/v1", "RAGSTONE_JUDGE_API_KEY": "sk-0123456789"}
    words = ("--judge", "openai:gpt-4o-mini", "--metrics", "faithfulness", "--limit", "16")
    return bench.gate(*words, *arguments, env=env, **options)


def _changed_judge(policy: str, bench: Workbench) -> Steps:
    """The baseline was judged offline, the change by a model."""
    bench.ferry(policy=policy)
    bench.gate("--metrics", "faithfulness", "--limit", "16", out="main")
    with closing(Loop()) as loop:
        judge = loop.serve(FakeLlm())
        return {"gate": _judged(judge, bench, baseline="main")}


CASES.add("changed judge: judged again", _changed_judge, f"{FAITHFULNESS}max_drop = 0.02\n")
CASES.add("changed judge: skipped", _changed_judge, f'[gate]\non_judge_change = "skip"\n{SMALL_DROP}')
CASES.add("changed judge: refused", _changed_judge, f'[gate]\non_judge_change = "fail"\n{SMALL_DROP}')


@CASES.case("changed judge: behind its name")
def _other_model(bench: Workbench) -> Steps:
    """Judgements of the baseline are asked for again, and differ."""
    bench.ferry(policy=f"{LINES_OFF}{ONE_DROP}")
    bench.config("[judge]\ncanaries = 10\n")
    with closing(Loop()) as loop:
        judge = loop.serve(FakeLlm())
        first = _judged(judge, bench, out="main")
        same = _judged(judge, bench, baseline="main", out="same")
        judge.fill = _strict
        (bench.folder / "main" / "judgements.sqlite").unlink()
        other = _judged(judge, bench, baseline="main")
    return {"first run": first, "same": same, "another model": other}


def _bad_judge(fill: Any, bench: Workbench) -> Steps:
    bench.ferry()
    with closing(Loop()) as loop:
        return {"first run": _judged(loop.serve(FakeLlm(fill=fill)), bench)}


CASES.add("judge: supports nothing", _bad_judge, _strict)
CASES.add("judge: supports everything", _bad_judge, _lenient)
CASES.add("judge: returns nothing", _bad_judge, lambda *_: {})


@CASES.case("judge: refused")
def _no_key(bench: Workbench) -> Steps:
    bench.ferry()
    return {
        "no key": bench.gate("--judge", "openai:gpt-4o-mini"),
        "unknown": bench.gate("--judge", "nobody:model"),
        "metric": bench.gate("--metrics", "faithfullness"),
    }


# -- compare -----------------------------------------------------------------------------------------------------------


@CASES.case("compare: two runs")
def _two_runs(bench: Workbench) -> Steps:
    bench.ferry(INVENTED)
    bench.gate(out="worse")
    baseline = str(bench.ferry_baseline)
    return {
        "worse": bench.compare(baseline, "worse"),
        "same": bench.compare(baseline, baseline),
        "alone": bench.compare("worse"),
        "nowhere": bench.compare(baseline, "nowhere"),
    }


def _scores(change: float, n: int = 60) -> str:
    draw = random.Random(7)
    rows = ["id,metric,value"]
    for number in range(n):
        value = 0.6 + 0.4 * draw.random()
        rows.append(f"s{number},faithfulness,{max(0.0, value - change * (number % 2)):.4f}")
    return "\n".join(rows) + "\n"


@CASES.case("compare: score files")
def _score_files(bench: Workbench) -> Steps:
    for name, change in (("base", 0.0), ("worse", 0.5), ("slightly", 0.03)):
        bench.write(f"{name}.csv", _scores(change))
    bench.write("bad.csv", "id,x\n1,2\n")
    wide = "\n".join(["id,faithfulness,tone", *(f"s{number},0.{5 + number % 5},1" for number in range(40))])
    bench.write("wide.csv", f"{wide}\n")
    bench.policy("[metrics.faithfulness]\nmin = 0.7\nmax_drop = 0.02\n")
    return {
        "worse": bench.compare("base.csv", "worse.csv"),
        "slightly worse": bench.compare("base.csv", "slightly.csv"),
        "same": bench.compare("base.csv", "base.csv"),
        "a floor": bench.compare("worse.csv"),
        "wide": bench.compare("wide.csv"),
        "bad": bench.compare("base.csv", "bad.csv"),
    }


# -- a season of merges ------------------------------------------------------------------------------------------------


def _season(losses: Sequence[float], policy: str, bench: Workbench) -> Steps:
    """Merges to the main branch, each compared with the last that passed, and with the history. Each loss is the share
    of invented answers; a tenth of the answers, by chance, is worded otherwise each time."""
    bench.ferry(policy=policy)
    baseline = None
    steps = {}
    for number, loss in enumerate(losses, start=1):
        draw = random.Random(number)
        lossy = changed(HEALTHY, BROKEN["invents everything"], loss)
        polite = changed(lossy, HARMLESS["politer"])
        bench.replies([other if draw.random() < 0.1 else reply for reply, other in zip(lossy, polite, strict=True)])
        out = f"run-{number:02}"
        outcome = bench.gate(env={"RAGSTONE_HISTORY": "history.jsonl"}, baseline=baseline, out=out)
        if outcome["status"] == "pass":
            baseline = out
        steps[f"merge {number:02}"] = outcome
    return steps


CASES.table(
    "season",
    _season,
    {
        "steady": ([0.0] * 8, POLICY),
        "a loss and a recovery": ([0, 0, 0, 0, 0, 0, 0.25, 0.25, 0, 0, 0, 0], POLICY),
        "a small loss that lasts": ([0, 0, 0, 0, 0, 0, *[0.08] * 8], POLICY),
        "slow drift": ([0.05 * number for number in range(10)], "[metrics.faithfulness]\nmax_drop = 0.1\n"),
        "broken from the first day": ([0.4, 0.4, 0.4, 0], POLICY),
    },
)
