"""Fills in the forms of all judgements of the LLM judge: from the cache, or by the
model within its window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ragstone.formatting import counted
from ragstone.judge.judgements import context_id
from ragstone.judge.llm.completion import Completer, Form, gather_all
from ragstone.judge.llm.replies import (
    Field,
    FieldPath,
    Values,
    document_of,
    read_document,
)
from ragstone.judge.llm.windows import Piece, pack_into_parts, room_for_data
from ragstone.judge.protocol import Call, Contexts
from ragstone.judge.untrusted_text import Block, render_blocks

_VALUE = "value"
"""The name of a value that is cached by itself."""


class FormFiller:
    """Fills in forms: looks in the cache before it asks the model, and splits contexts
    to fit the model's window."""

    def __init__(self, completer: Completer, notes: Sequence[str] = ()) -> None:
        self.completer = completer
        self.prompts = completer.layout.prompts
        self.cache = completer.cache
        self.keys = completer.keys
        self._notes = tuple(notes)
        self._judgements_in_parts = 0
        # By the keys of a judgement. A lock is dropped as soon as nobody holds it or
        # waits for it.
        self._locks: WeakValueDictionary[tuple[bytes, ...], asyncio.Lock] = (
            WeakValueDictionary()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report."""
        notes = (*self._notes, *self.completer.notes)
        if self._judgements_in_parts:
            judgements = counted(self._judgements_in_parts, "judgement")
            notes += (
                f"{judgements} had to be made in parts, because texts are longer than the judge's window",
            )
        return notes

    async def get_or_ask(
        self,
        form: Form,
        content: Sequence[str],
        call: Call,
        ask: Callable[[], Awaitable[Values]],
    ) -> Values:
        """All values of `form`: from the cache if it has every one of them, otherwise
        from `ask`, which are then stored.

        `content` are the texts that the values depend on. A fresh call always asks, and
        leaves the cache as it is.
        """
        if call.fresh:
            return await ask()
        key = self.keys.key(form.digest, content, repeat=call.repeat)
        async with self.lock(key):
            cached_values = read_document(self.cache.get(key), form.fields)
            if len(cached_values) == len(form.fields):
                call.ledger.cached_calls += 1
                return cached_values
            values = await ask()
            self.cache.put(key, document_of(values))
            return values

    async def get_or_ask_each(
        self,
        form: Form,
        field_texts: Mapping[FieldPath, str],
        shared_texts: Sequence[str],
        call: Call,
        ask: Callable[[Sequence[Field]], Awaitable[Values]],
    ) -> Values:
        """All values of `form`, each cached by itself.

        `ask` is called with the fields that are missing from the cache, a few at a
        time. Their values are stored at once, so that a run that is stopped in between
        pays for none twice. A value depends on its text of `field_texts` and on all
        `shared_texts`. A fresh call asks for every field, and leaves the cache as it
        is.
        """
        digest = replace(form, fields=()).digest
        keys = {
            path: self.keys.key(digest, [text, *shared_texts], repeat=call.repeat)
            for path, text in field_texts.items()
        }
        async with self.lock(*keys.values()):
            values: Values = {}
            missing: list[Field] = []
            for field in form.fields:
                document = None if call.fresh else self.cache.get(keys[field.path])
                cached_field = replace(field, path=(_VALUE,))
                cached_values = read_document(document, [cached_field])
                if cached_values:
                    values[field.path] = cached_values[cached_field.path]
                else:
                    missing.append(field)
            if not missing:
                call.ledger.cached_calls += 1
                return values

            async def ask_and_store(fields: Sequence[Field]) -> None:
                new_values = await ask(fields)
                for path, value in new_values.items():
                    values[path] = value
                    if not call.fresh:
                        self.cache.put(keys[path], {_VALUE: value})

            fields_of_calls = self.completer.split_into_calls(missing)
            await gather_all(map(ask_and_store, fields_of_calls))
            return values

    @asynccontextmanager
    async def lock(self, *keys: bytes) -> AsyncIterator[None]:
        """Hold a lock for the judgement with these cache keys, so that equal judgements
        are made only once.

        Answers are often equal when two versions of a system are evaluated at the same
        time.
        """
        lock = self._locks.setdefault(keys, asyncio.Lock())
        async with lock:
            yield

    async def fill_form(
        self, form: Form, blocks: Sequence[Block], call: Call
    ) -> Values:
        """The form's values, from the cache or judged by `blocks`, none of which can be
        split."""

        async def ask() -> Values:
            self.check_room(form, [block.text for block in blocks])
            data = render_blocks(blocks)
            return await self.completer.fill(form, lambda _pending: data, call)

        content = [f"{block.name}:{block.text}" for block in blocks]
        return await self.get_or_ask(form, content, call, ask)

    async def fill_field(
        self, prompt: str, field: Field, blocks: Sequence[Block], call: Call
    ) -> dict[str, Any]:
        """The value of `field`, the only one that `prompt` asks for, from the cache or
        judged by `blocks`, none of which can be split."""
        form = Form(self.prompts[prompt], (field,))
        values = await self.fill_form(form, blocks, call)
        return value_of(values, *field.path)

    def split_contexts(
        self, form: Form, contexts: Contexts, fixed: Sequence[str]
    ) -> list[list[Piece]]:
        """The contexts in parts, each of which fits into the window together with the
        texts in `fixed`. Raises JudgementFailed if these leave no room."""
        room = self.check_room(form, fixed)
        pieces = named_contexts([context.text for context in contexts])
        parts = pack_into_parts(pieces, room)
        if len(parts) > 1:
            self._judgements_in_parts += 1
        return parts

    def check_room(self, form: Form, fixed: Sequence[str]) -> int:
        """The tokens left in the window besides the texts in `fixed`, which can't be
        split. Raises JudgementFailed if these leave no room."""
        output_tokens = form.output_tokens + self.completer.thinking_tokens
        return room_for_data(
            self.completer.window, form.prompt.static, output_tokens, fixed
        )


def named_contexts(texts: Sequence[str]) -> list[Piece]:
    """The texts of contexts, in the order of their ranks, with their ids."""
    return [(context_id(rank), text) for rank, text in enumerate(texts)]


def texts_of(part: Sequence[Piece]) -> dict[str, str]:
    """The text of each context that `part` has a piece of, by id, in order."""
    texts: dict[str, str] = {}
    for name, text in part:
        if name in texts:
            text = f"{texts[name]}\n{text}"
        texts[name] = text
    return texts


def context_blocks(pieces: Sequence[Piece]) -> list[Block]:
    """The blocks of a prompt for contexts, or for pieces of them."""
    return [Block(f"context {name}", text) for name, text in pieces]


def value_of(values: Values, *path: str) -> dict[str, Any]:
    """The value at `path`, which its field's check has made sure is an object."""
    return cast(dict[str, Any], values[path])
