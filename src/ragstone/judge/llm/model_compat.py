"""Finds out what a model accepts, remembers it and reports it. Shared by both providers."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Final, Literal, TypeVar

from ragstone.errors import JudgeError
from ragstone.judge.llm.provider import Broken, Fault, Rejected

_T = TypeVar("_T")
_MAX_ADAPTATIONS = 8
_HOPELESS = 20

_WINDOW = re.compile(r"maximum context length (?:is |\()(\d+)|got -\d+()")
_READ = re.compile(r"(\d+) (?:in the messages|input tokens|prompt tokens)")
_SPARE = 8
_MIN_REPLY = 256
_NUMBER = re.compile(r"\b\d{3,7}\b")

QUIRKS: Final = tomllib.loads(files("ragstone.judge.llm").joinpath("quirks.toml").read_text("utf-8"))
"""What services say and accept: see quirks.toml."""
_DIALECT, _MODES = QUIRKS["dialect"], QUIRKS["modes"]

Body = dict[str, object]
Outcome = tuple[_T | None, Exception | None]
"""A reply, or the error to raise. It is raised outside the SDK's except block, so that no SDK error, which holds the
request and with it the key, becomes part of its chain."""

Mode = Literal["json_schema", "tool", "json_object", "prompt"]


@dataclass(frozen=True, slots=True)
class Own:
    """Overrides of the dialect for one request; None: as in the dialect."""

    mode: Mode | None = None
    output_cap: int | None = None


AS_USUAL = Own()


@dataclass(slots=True)
class Dialect:
    """The request format that this model accepts.

    `mode` is how the schema is enforced: by the provider's JSON-schema mode, a forced tool call, its JSON mode, or the
    prompt alone; `modes` are those that the provider has, best first. `dropped` are parameters that the model refused.
    `version` increases with every change.
    """

    modes: Sequence[Mode]
    limit_names: tuple[str, ...] = ("max_tokens",)
    output_cap: int | None = None
    version: int = 0
    dropped: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    mode: Mode = "json_schema"

    @property
    def limit_name(self) -> str:
        return self.limit_names[0]

    def limit(self, wanted: int, own: Own = AS_USUAL) -> int:
        """`wanted` output tokens, or fewer if the model allows fewer, in general or for this request."""
        return min(wanted, *(cap for cap in (self.output_cap, own.output_cap, wanted) if cap is not None))

    def except_for(self, complaint: str, sent: Mapping[str, object], own: Own) -> Own | None:
        """What to change for this request alone: its form is too large, or the window has no room for the reply.

        None if `complaint` (lower case) is not about that. Other requests may be accepted unchanged.
        """
        mode = own.mode or self.mode
        if any(word in complaint for word in _DIALECT["form"]) and any(
            word in complaint for word in _DIALECT["too_large"]
        ):
            after = self.modes.index(mode) + 1
            if after < len(self.modes):
                chosen = self.modes[after]
                self.note(
                    f"some schemas are too large for {_MODES[mode]['name']}; {_MODES[chosen]['name']} is used for them"
                )
                return replace(own, mode=chosen)
        window = next((int(match.group(1)) for match in _WINDOW.finditer(complaint) if match.group(1)), None)
        read = next((int(match.group(1)) for match in _READ.finditer(complaint)), None)
        wanted = sent.get(self.limit_name)
        if window is None or read is None or not isinstance(wanted, int):
            return None
        left = window - read - _SPARE
        if not _MIN_REPLY <= left < wanted:
            return None
        self.note(f"the model's window is {window:,} tokens; set judge.context_window = {window}")
        return replace(own, output_cap=left)

    def adapt(self, complaint: str, sent: Mapping[str, object]) -> bool:
        """Change what `complaint` (lower case) says the model does not accept; False if nothing can be changed."""
        if _WINDOW.search(complaint):
            return False
        if self.limit_name in complaint and self._adapt_limit(complaint, sent):
            return True
        for name in _DIALECT["optional"]:
            if (name in sent or name in _DIALECT["deep"]) and name in complaint and name not in self.dropped:
                self.dropped.add(name)
                return self._changed(f"the model does not accept '{name}'; its default is used")
        if any(word in complaint for word in _MODES[self.mode]["words"]):
            return self._next_mode()
        return False

    def _adapt_limit(self, complaint: str, sent: Mapping[str, object]) -> bool:
        wanted = sent.get(self.limit_name)
        smaller = [
            int(number) for number in _NUMBER.findall(complaint) if isinstance(wanted, int) and int(number) < wanted
        ]
        if smaller and any(word in complaint for word in ("too large", "at most", "maximum", "less than", "exceed")):
            self.output_cap = max(smaller)
            return self._changed(f"the model's output is limited to {self.output_cap} tokens")
        if len(self.limit_names) > 1:
            self.limit_names = self.limit_names[1:]
            return self._changed(f"the model takes '{self.limit_name}' as the name of its output limit")
        return False

    def drop_parameter(self, name: str, complaint: str) -> bool:
        """Drop a parameter that the user set, if that is what the model refuses."""
        named = re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", complaint)
        if name in self.dropped or not named or not any(word in complaint for word in _DIALECT["refusals"]):
            return False
        self.dropped.add(name)
        return self._changed(f"the model does not accept the parameter '{name}' from judge.parameters; it is left out")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _next_mode(self) -> bool:
        at = self.modes.index(self.mode)
        if at + 1 >= len(self.modes):
            return False
        refused, self.mode = self.mode, self.modes[at + 1]
        return self._changed(f"the model has no {_MODES[refused]['name']}; {_MODES[self.mode]['name']} is used")

    def _changed(self, note: str) -> bool:
        self.version += 1
        self.note(note)
        return True


def with_schema(data: str, schema: Mapping[str, object]) -> str:
    """`data`, followed by the schema as text, for models whose schema is not enforced otherwise."""
    return (
        f"{data}\n\nReply with one JSON object and nothing else. It must follow this JSON schema:\n"
        f"{json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    )


class BadRequest(Exception):  # noqa: N818 - an outcome, carried from where a 400 is caught to where it is understood
    """A 400 or 422: perhaps only the request format was wrong. `complaint` is the message, in lower case."""

    def __init__(self, fault: Rejected, complaint: str) -> None:
        super().__init__(fault.reason)
        self.fault = fault
        self.complaint = complaint


class Adapter:
    """Changes the dialect when the model complains, and gives up on a judge that rejects everything."""

    def __init__(self, dialect: Dialect, parameters: Mapping[str, object]) -> None:
        self.dialect = dialect
        self._parameters = parameters
        self._rejected = 0
        self.succeeded = False

    def given(self) -> Body:
        return {name: value for name, value in self._parameters.items() if name not in self.dialect.dropped}

    async def accepted(
        self,
        body: Callable[[Own], Body],
        send: Callable[[Mapping[str, object]], Awaitable[tuple[_T | None, Exception | None]]],
    ) -> _T:
        """The first reply to `body(own)`, rebuilt after each change of the dialect or of this request's overrides.

        Raises the fault of this attempt, or JudgeError when the judge rejects everything.
        """
        own = AS_USUAL
        for _ in range(_MAX_ADAPTATIONS):
            version = self.dialect.version
            sent = body(own)
            reply, error = await send(sent)
            if reply is not None:
                self.succeeded = True
                return reply
            if not isinstance(error, BadRequest):
                raise error or Broken("no reply")
            changed = self.dialect.except_for(error.complaint, sent, own)
            if changed is not None:
                own = changed
                continue
            # Another call may have changed the dialect meanwhile: then this request used the old one.
            if self.dialect.version == version and not self._adapt(error.complaint, sent):
                raise self._rejection(error.fault)
        raise Rejected("the judge rejects all known request modes")

    def _adapt(self, complaint: str, sent: Mapping[str, object]) -> bool:
        if self.dialect.adapt(complaint, sent):
            return True
        # Nested parameters say how and where the user's data are handled: they are kept, or the request fails.
        plain = (name for name, value in self._parameters.items() if not isinstance(value, dict | list))
        return any(self.dialect.drop_parameter(name, complaint) for name in plain)

    def _rejection(self, fault: Rejected) -> Fault | JudgeError:
        self._rejected += 1
        if self.succeeded or self._rejected < _HOPELESS:
            return fault
        return JudgeError(
            f"the judge rejected all of its first {self._rejected} requests: {fault.reason}",
            where="judge",
            hint="Check judge.name, judge.base_url and judge.parameters against the provider's documentation.",
        )
