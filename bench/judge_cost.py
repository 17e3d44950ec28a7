"""The cost of judging 1,000 samples at the package's prices, with and without the layout for prompt caches.

    python bench/judge_cost.py

Simulated: no model is asked. Texts are of the usual length (question 15 words, answer 60, reference 40, 3 to 6 contexts
of 120 words; six characters a word, four a token), answers have 3 to 8 statements and references 2 to 5. 64 samples
are in flight at once; what they send is in the cache for those that follow. A prefix cache is played as each
provider describes its own: OpenAI's models before GPT-5.6, and Anthropic's at the mark, find what they have seen
before, from the model's minimum on; GPT-5.6 and later only at a mark, which without being told is the last message, and
bill writes. Every read of the cache that could hit does; a provider may lose entries sooner.

"Version 0.1" had long prompts for every model and one schema for each number of statements and contexts, without marks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ragstone.judge.llm.prices import listed_price, tariff
from ragstone.judge.llm.prompts import layout_of, prefix_tokens
from ragstone.judge.llm.provider import Usage

SAMPLES = 1_000
MODELS = (
    ("openai", "gpt-6.1-sol"),
    ("openai", "gpt-6-luna"),
    ("openai", "gpt-5.4"),
    ("openai", "gpt-5.4-mini"),
    ("openai", "gpt-4o-mini"),
    ("anthropic", "claude-opus-5"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-haiku-4-5"),
)
# Characters of the prompts of version 0.1, and of its schemas: what they had at all, and for each id.
FORMER = {"statements": 5_033, "support": 5_186, "context_use": 5_577, "reverse_questions": 4_845}
FORMER_SCHEMA = {
    "statements": (330, 0),
    "support": (230, 260),
    "context_use": (420, 150),
    "reverse_questions": (300, 0),
}
WORD = 6
QUESTION, ANSWER, REFERENCE, CONTEXT = (words * WORD // 4 for words in (15, 60, 40, 120))
IN_FLIGHT = 64


@dataclass(frozen=True)
class Call:
    """One call: tokens of its data and of its reply, and how many ids its schema had in version 0.1."""

    task: str
    data: int
    reply: int
    former_reply: int
    ids: int
    shape: str = ""


def calls(chance: random.Random) -> list[Call]:
    """The four calls of one sample."""
    statements, reference, contexts = chance.randint(3, 8), chance.randint(2, 5), chance.randint(3, 6)
    read, own = contexts * CONTEXT, f"{contexts}"
    answered = contexts * 12 + reference * 18
    return [
        Call("statements", QUESTION + ANSWER, ANSWER * 3 // 2, ANSWER * 3 // 2, 0),
        Call("support", read + ANSWER * 3 // 2, statements * 27, statements * 20, statements, f"{statements} {own}"),
        Call("context_use", QUESTION + REFERENCE + read, answered, contexts * 10 + reference * 16, contexts, own),
        Call("reverse_questions", ANSWER, 3 * 24, 3 * 22, 0),
    ]


class Cache:
    """The prefixes that a provider has seen, by name."""

    def __init__(self, cache_from: int | None, *, writes: bool) -> None:
        self._from = cache_from
        self._writes = writes
        self._seen: set[str] = set()
        self._sent: set[str] = set()

    def arrive(self) -> None:
        """Put everything sent so far into the cache."""
        self._seen |= self._sent

    def usage(self, prefix: str, tokens: int, rest: int, reply: int) -> Usage:
        if self._from is None or tokens < self._from:
            return Usage(tokens + rest, 0, 0, reply)
        if prefix in self._seen:
            return Usage(rest, tokens, 0, reply)
        self._sent.add(prefix)
        return Usage(rest, 0, tokens, reply) if self._writes else Usage(tokens + rest, 0, 0, reply)


def costs(provider: str, model: str) -> tuple[float, float, float]:
    """US dollars of 1,000 samples in version 0.1 and now, and the share of the input that the cache gives now."""
    price, layout = tariff(provider, model), layout_of(provider, model)
    assert price is not None
    writes = provider == "anthropic" or layout.breakpoints
    listed = listed_price(provider, model)
    former, now = (Cache(listed.cache_from if listed else None, writes=writes) for _ in range(2))
    chance = random.Random(11)
    before = after = 0.0
    cached = whole = 0
    for at in range(SAMPLES):
        if at % IN_FLIGHT == 0:
            former.arrive()
        for call in calls(chance):
            fixed, each = FORMER_SCHEMA[call.task]
            tokens = (FORMER[call.task] + fixed + each * call.ids) // 4
            if layout.breakpoints:  # the last message is marked: all is written, nothing is ever read
                spent = Usage(0, 0, tokens + call.data, call.former_reply)
            else:
                spent = former.usage(f"{call.task} {call.shape}", tokens, call.data, call.former_reply)
            before += price.cost_usd(spent)
            tokens = prefix_tokens(layout.prompts[call.task])
            spent = now.usage(call.task, tokens, call.data + 20, call.reply)
            now.arrive()  # one call of each task goes ahead of the rest
            after += price.cost_usd(spent)
            cached += spent.cached_input_tokens
            whole += spent.all_input_tokens
    return before, after, cached / whole


def main() -> None:
    print("| model | version 0.1 | now | change | input read from the cache |")
    print("|---|---|---|---|---|")
    for provider, model in MODELS:
        before, after, share = costs(provider, model)
        print(f"| {model} | ${before:.2f} | ${after:.2f} | {after / before - 1:+.0%} | {share:.0%} |")


if __name__ == "__main__":
    main()
