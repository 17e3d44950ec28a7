"""The steps common to all judgements of the LLM judge: the cache, the window, the
model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ragstone.formatting import counted
from ragstone.judge.judgements import context_id
from ragstone.judge.llm.completion import Completer, Form, all_of
from ragstone.judge.llm.replies import Field, Path, Values, document_of, read_document
from ragstone.judge.llm.windows import Piece, parts_of, room_for_data
from ragstone.judge.protocol import Call, Contexts
from ragstone.judge.untrusted_text import Block, fenced

_VALUE = "value"


class Core:
    """Fills in forms: looks in the cache before asking the model, and splits texts to
    fit the model's window."""

    def __init__(self, completer: Completer, notes: Sequence[str] = ()) -> None:
        self.completer = completer
        self.prompts = completer.layout.prompts
        self.cache = completer.cache
        self.keys = completer.keys
        self._notes = tuple(notes)
        self._in_parts = 0
        # By the judgement's keys; gone when nobody makes it or waits for it.
        self._locks: WeakValueDictionary[tuple[bytes, ...], asyncio.Lock] = (
            WeakValueDictionary()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        notes = (*self._notes, *self.completer.notes)
        if self._in_parts:
            what = counted(self._in_parts, "judgement")
            notes += (
                f"{what} had to be made in parts, because texts are longer than the judge's window",
            )
        return notes

    async def cached(
        self,
        form: Form,
        content: Sequence[str],
        call: Call,
        ask: Callable[[], Awaitable[Values]],
    ) -> Values:
        """All values of the form: from the cache if it has every one of them, otherwise
        from `ask`, and then stored.

        A fresh call always asks, and leaves the cache as it is.
        """
        if call.fresh:
            return await ask()
        key = self.keys.key(form.digest, content, repeat=call.repeat)
        async with self.alone(key):
            values = read_document(self.cache.get(key), form.fields)
            if len(values) == len(form.fields):
                call.ledger.cached_calls += 1
                return values
            filled = await ask()
            self.cache.put(key, document_of(filled))
            return filled

    async def cached_each(
        self,
        form: Form,
        own: Mapping[Path, str],
        shared: Sequence[str],
        call: Call,
        ask: Callable[[Sequence[Field]], Awaitable[Values]],
    ) -> Values:
        """All values of the form, each cached separately: `ask` is called with the
        fields missing from the cache, a few at a time. What it returns is stored at
        once, so a run that is stopped in between pays for none twice.

        `own` is the text that a field's value depends on, `shared` are the texts that
        all of them depend on. A fresh call asks for every field, and leaves the cache
        as it is.
        """
        digest = replace(form, fields=()).digest
        keys = {
            path: self.keys.key(digest, [text, *shared], repeat=call.repeat)
            for path, text in own.items()
        }
        async with self.alone(*keys.values()):
            values: Values = {}
            missing: list[Field] = []
            for field in form.fields:
                document = None if call.fresh else self.cache.get(keys[field.path])
                stored = read_document(document, [replace(field, path=(_VALUE,))])
                if stored:
                    values[field.path] = stored[(_VALUE,)]
                else:
                    missing.append(field)
            if not missing:
                call.ledger.cached_calls += 1
                return values

            async def store(fields: Sequence[Field]) -> None:
                for path, value in (await ask(fields)).items():
                    values[path] = value
                    if not call.fresh:
                        self.cache.put(keys[path], {_VALUE: value})

            await all_of(map(store, self.completer.in_calls(missing)))
            return values

    @asynccontextmanager
    async def alone(self, *keys: bytes) -> AsyncIterator[None]:
        """Within the block, nobody else makes the judgement with these keys: equal
        answers are judged only once.

        Answers are often equal when two versions of a system are evaluated at the same
        time.
        """
        lock = self._locks.setdefault(keys, asyncio.Lock())
        async with lock:
            yield

    async def filled(self, form: Form, blocks: Sequence[Block], call: Call) -> Values:
        """The form's values, from the cache or judged by `blocks`, none of which can be
        split."""

        async def ask() -> Values:
            self.check_room(form, [block.text for block in blocks])
            data = fenced(blocks)
            return await self.completer.fill(form, lambda _pending: data, call)

        content = [f"{block.name}:{block.text}" for block in blocks]
        return await self.cached(form, content, call, ask)

    async def one(
        self, prompt: str, field: Field, blocks: Sequence[Block], call: Call
    ) -> dict[str, Any]:
        """The value of a form's only `field`, from the cache or judged by `blocks`,
        none of which can be split."""
        form = Form(self.prompts[prompt], (field,))
        values = await self.filled(form, blocks, call)
        return value_of(values, *field.path)

    def context_parts(
        self, form: Form, contexts: Contexts, fixed: Sequence[str]
    ) -> list[list[Piece]]:
        """The contexts in as few parts as the window allows together with the texts in
        `fixed`."""
        room = self.check_room(form, fixed)
        parts = parts_of(named_contexts([item.text for item in contexts]), room)
        self._in_parts += len(parts) > 1
        return parts

    def check_room(self, form: Form, fixed: Sequence[str]) -> int:
        """Tokens left in the window besides the texts in `fixed`, which can't be split.
        Raises JudgementFailed."""
        output_tokens = form.output_tokens + self.completer.thinking_tokens
        return room_for_data(
            self.completer.window, form.prompt.static, output_tokens, fixed
        )


def named_contexts(texts: Sequence[str]) -> list[Piece]:
    """The texts of contexts with their ids, by rank."""
    return [(context_id(rank), text) for rank, text in enumerate(texts)]


def texts_of(part: Sequence[Piece]) -> dict[str, str]:
    """The text of each context that `part` has a piece of, by id, in order."""
    texts: dict[str, str] = {}
    for name, text in part:
        if name in texts:
            text = f"{texts[name]}\n{text}"
        texts[name] = text
    return texts


def context_blocks(part: Sequence[Piece]) -> list[Block]:
    return [Block(f"context {name}", text) for name, text in part]


def value_of(values: Values, *path: str) -> dict[str, Any]:
    """A checked value: the form's checks guarantee its shape."""
    return cast(dict[str, Any], values[path])
