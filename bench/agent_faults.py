"""Twenty faults and ten harmless changes in the turns, hops and tools of examples/support-agent, gated as users do.

    python bench/agent_faults.py
    python bench/agent_faults.py --only "hop 2" --comments FOLDER     # keep the comment on each, to read it

Each is compared with the example's stored baseline. A fault is named if the comment says which turn, hop or tool broke.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from processes import gate

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "support-agent"
sys.path.insert(0, str(EXAMPLE))

import shop  # noqa: E402 - the example's
from agent import ABSTAIN, Agent  # noqa: E402

ENTRYPOINT = (
    "import sys\n\nsys.path.insert(0, {bench!r})\nfrom agent_faults import CHANGES\n\nAgent = CHANGES[{name!r}].agent\n"
)
NEXT_ORDER = dict(pairwise(shop.orders()))
LOST_POLICIES = {passage.id for passage in shop.passages()[::2] if passage.source == "policies"}


@dataclass(frozen=True)
class Change:
    name: str
    agent: type[Agent]
    sentence: str | None
    """A part of what the comment says of a fault; None for a harmless change."""


CHANGES: dict[str, Change] = {}


def add(name: str, sentence: str | None = None, **methods: object) -> None:
    """Add a change that gives the agent other methods."""
    CHANGES[name] = Change(name, type("Agent", (Agent,), methods), sentence)


def before_remembering(prepare: Callable[[Any], object]) -> Callable[[Agent, str], None]:
    def remember(self: Agent, question: str) -> None:
        prepare(self)
        Agent.remember(self, question)

    return remember


def with_order(order_of: Callable[[Agent, str | None], str | None]) -> Callable[[Agent, str], None]:
    """A `remember` that takes another order; `order_of` gets the one before, too."""

    def remember(self: Agent, question: str) -> None:
        before = self.order_id
        Agent.remember(self, question)
        self.order_id = order_of(self, before)

    return remember


def answer_previous(self: Any, question: str) -> Any:
    self.answers = [*getattr(self, "answers", []), Agent.answer(self, question)]
    return self.answers[-2:][0]


def lose_contexts(self: Agent, question: str) -> dict[str, object]:
    response = Agent.answer(self, question)
    calls = [step for step in self.steps if step["type"] == "tool"]
    return response if self.turn == 1 else {**response, "contexts": [], "steps": calls}


def drop_hop(self: Agent, order_id: str) -> str:
    hop_1 = self.first(self.retrieve(f"order {order_id}", "orders"))
    return Agent.of_order(self, order_id) if self.topic == "paid" else hop_1 or ABSTAIN


def ask_by_topic(self: Agent, order: str) -> tuple[str, str]:
    query, source = Agent.second_hop(self, order)
    return (str(self.topic), source) if source == "invoices" else (query, source)


def looking_up(lookup: Callable[[Agent, str], str]) -> Callable[..., str]:
    """A `tool_result` that calls `lookup_order` otherwise."""

    def tool_result(self: Agent, name: str, **arguments: str) -> str:
        if name == "lookup_order":
            return lookup(self, arguments["order_id"])
        return Agent.tool_result(self, name, **arguments)

    return tool_result


def call(self: Agent, order_id: str, times: int = 1) -> str:
    return [Agent.tool_result(self, "lookup_order", order_id=order_id) for _ in range(times)][-1]


def show_first_result(self: Agent, order_id: str, results: list[str] = []) -> str:  # noqa: B006 - kept for all calls
    results.append(call(self, order_id))
    self.steps[-1]["result"] = results[0]
    return results[0]


def swallow_error(self: Agent, order_id: str) -> str:
    self.steps.append({"type": "tool", "name": "lookup_order", "arguments": {"order_id": order_id}, "error": "timeout"})
    return f"Order {order_id} is on its way."


def find_by_first_name(self: Agent, name: str, **arguments: str) -> str:
    if name == "find_invoice" and "order_id" in arguments:
        arguments = {"customer": shop.orders()[arguments["order_id"]]["customer"].split()[0]}
    return Agent.tool_result(self, name, **arguments)


def call_with_more(self: Agent, name: str, **arguments: str) -> str:
    result = Agent.tool_result(self, name, **arguments)
    self.steps[-1]["arguments"] = {**arguments, "caller": "support"}
    return result


def worded(words: Callable[[str], str]) -> Callable[[Agent, str], dict[str, object]]:
    def answer(self: Agent, question: str) -> dict[str, object]:
        response = Agent.answer(self, question)
        return {**response, "answer": words(str(response["answer"]))}

    return answer


TURN_2, TURN_3 = (f"Turn {turn} no longer carries the order_id" for turn in (2, 3))
FIRST, EARLIER = (
    "with a worse turn, turn 2 is the first",
    "A turn gets the answer that belongs to the turn before it",
)
LOST = "Hop {} no longer finds the evidence from `{}`"
WRONG, AGAIN = "`{}` is called with the wrong order_id", "`lookup_order` is called repeatedly"
forgetting_2 = with_order(lambda self, before: None if self.turn == 2 and self.order_id == before else self.order_id)
forgetting_3 = with_order(lambda self, before: None if self.turn == 3 and self.order_id == before else self.order_id)
swapping = with_order(lambda self, before: NEXT_ORDER.get(str(self.order_id)) if self.turn == 2 else self.order_id)
forgetting_all = before_remembering(lambda self: vars(self).update(order_id=None, topic=None))
losing_topic = before_remembering(lambda self: vars(self).update(topic=self.order_id and self.topic))
assuming = with_order(lambda self, before: self.order_id or "TF-4101")
without_prefix = looking_up(lambda self, order_id: call(self, order_id.removeprefix("TF-")))
other_tool = looking_up(lambda self, order_id: Agent.tool_result(self, "find_invoice", order_id=order_id))
search_half = staticmethod(lambda *query: [c for c in shop.search(*query) if c["id"] not in LOST_POLICIES])
search_invoices = staticmethod(lambda query, source: shop.search(query, "invoices" if source == "orders" else source))
search_in_other_order = staticmethod(lambda *query: [*shop.search(*query)[:1], *shop.search(*query)[:0:-1]])
add("forgets the order at turn 2", TURN_2, remember=forgetting_2)
add("forgets the order at turn 3", TURN_3, remember=forgetting_3)
add("takes another order from turn 2 on", TURN_2, remember=swapping)
add("keeps the first order", TURN_3, remember=with_order(lambda self, before: before or self.order_id))
add("ignores the history", TURN_2, remember=forgetting_all)
add("forgets what it asks back for", FIRST, remember=losing_topic)
add("answers the previous question", EARLIER, answer=answer_previous)
add("never asks back", "The system answers instead of asking back", remember=assuming)
add("returns no contexts after turn 1", FIRST, answer=lose_contexts)
add("drops hop 2", LOST.format(2, "invoices"), of_order=drop_hop)
add("asks for invoices by topic in hop 2", LOST.format(2, "invoices"), second_hop=ask_by_topic)
add("has lost policies in hop 2", LOST.format(2, "policies"), search=search_half)
add("searches invoices in hop 1", LOST.format(1, "orders"), search=search_invoices)
add("looks orders up without their prefix", WRONG.format("lookup_order"), tool_result=without_prefix)
add("finds invoices by the first name", WRONG.format("find_invoice"), tool_result=find_by_first_name)
add("shows the first result again", "`lookup_order` gives another result", tool_result=looking_up(show_first_result))
add("swallows the tool's error", "`lookup_order` fails", tool_result=looking_up(swallow_error))
add("calls the tool twice", AGAIN, tool_result=looking_up(lambda self, order_id: call(self, order_id, 2)))
add("calls the tool five times", AGAIN, tool_result=looking_up(lambda self, order_id: call(self, order_id, 5)))
add("calls another tool", "`lookup_order` is no longer called", tool_result=other_tool)

add("is polite before the answer", answer=worded("Thank you for asking. {}".format))
add("is polite after the answer", answer=worded("{} I am happy to help you with anything else.".format))
add("leaves out the order's number", answer=worded(lambda text: text.partition(": ")[2] if text[:3] == "For" else text))
add("words answers otherwise", answer=worded(lambda text: text.replace("It is due on", "Its due date is")))
add("retrieves more contexts", search=staticmethod(lambda query, source: shop.search(query, source, 6)))
add("returns the other contexts in another order", search=search_in_other_order)
add(
    "asks a model, too",
    remember=before_remembering(lambda self: self.steps.append({"type": "model", "model": "small"})),
)
add("takes longer", remember=before_remembering(lambda self: time.sleep(0.02)))
add("words its queries otherwise", retrieve=lambda self, query, source: Agent.retrieve(self, f"find {query}", source))
add("gives the tools another argument, too", tool_result=call_with_more)


@dataclass(frozen=True)
class Outcome:
    change: Change
    status: str
    comment: str

    @property
    def named(self) -> bool:
        return self.change.sentence is not None and self.change.sentence in self.comment

    def row(self) -> str:
        lines = [line.strip("#-⚠️* ") for line in self.comment.splitlines() if line.startswith(("#", "**", "- ⚠️"))]
        return f"| {self.change.name} | {self.status} | {'named' if self.named else ''} | {' '.join(lines[:4])} |"


def outcome_of(work: Path, change: Change) -> Outcome:
    """What the gate says of the agent after a change."""
    folder = work / change.name.replace(" ", "-")
    folder.mkdir()
    for name in ("golden.jsonl", "ragstone.toml", "thresholds.toml"):
        shutil.copy(EXAMPLE / name, folder)
    bench = str(Path(__file__).resolve().parent)
    (folder / "changed.py").write_text(ENTRYPOINT.format(bench=bench, name=change.name), encoding="utf-8")
    arguments = ["--entrypoint", "python:changed:Agent", "--baseline", str(EXAMPLE / "baseline")]
    report, comment = gate(folder, *arguments)
    return Outcome(change, report["verdict"]["status"], comment.replace("\\", "").replace("\u200b", ""))


def summary(outcomes: Sequence[Outcome]) -> str:
    faults = [outcome for outcome in outcomes if outcome.change.sentence is not None]
    harmless = [outcome for outcome in outcomes if outcome.change.sentence is None]
    blocked, healthy = (sum(outcome.status == "fail" for outcome in part) for part in (faults, harmless))
    named = sum(outcome.named for outcome in faults)
    return f"Faults: {len(faults)}, {blocked} blocked, {named} named. Harmless: {len(harmless)}, {healthy} blocked."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="changes with any of these in their names")
    parser.add_argument("--comments", type=Path, help="a folder that is there, for the comments")
    options = parser.parse_args()
    changes = [change for change in CHANGES.values() if any(part in change.name for part in options.only)]
    outcomes: list[Outcome] = []
    print("| change | verdict | | what the comment says first |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda change: outcome_of(Path(work), change), changes):
            outcomes.append(outcome)
            print(outcome.row(), flush=True)
            if options.comments is not None:
                (options.comments / f"{outcome.change.name}.md").write_text(outcome.comment, "utf-8")
    print(f"\n{summary(outcomes)}")


if __name__ == "__main__":
    main()
