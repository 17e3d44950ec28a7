"""Asking a model again in another way until it accepts how it is asked; shared by both providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ragstone.errors import JudgeError
from ragstone.judge.llm.dialect import AS_USUAL, Dialect, Own
from ragstone.judge.llm.provider import Broken, Fault, Rejected

_T = TypeVar("_T")
_MAX_ADAPTATIONS = 8
_HOPELESS = 20

Body = dict[str, object]
Outcome = tuple[_T | None, Exception | None]
"""A reply, or the error to raise. The error is made where the SDK's error is caught and raised elsewhere, so that no
SDK error, which holds the request and with it the key, becomes part of its chain."""


class BadRequest(Exception):  # noqa: N818 - an outcome, carried from where a 400 is caught to where it is understood
    """A 400 or 422: perhaps only the way of asking was wrong. `complaint` is what it says, in lower case."""

    def __init__(self, fault: Rejected, complaint: str) -> None:
        super().__init__(fault.reason)
        self.fault = fault
        self.complaint = complaint


class Adapter:
    """Changes the dialect as the model complains, and gives up on a judge that rejects everything."""

    def __init__(self, dialect: Dialect, parameters: Mapping[str, object]) -> None:
        self.dialect = dialect
        self._parameters = parameters
        self._rejected = 0
        self.succeeded = False

    def given(self) -> Body:
        """The parameters that the user set and the model takes."""
        return {name: value for name, value in self._parameters.items() if name not in self.dialect.dropped}

    async def accepted(
        self,
        body: Callable[[Own], Body],
        send: Callable[[Mapping[str, object]], Awaitable[tuple[_T | None, Exception | None]]],
    ) -> _T:
        """The first reply to `body(own)`, made anew after each change of the dialect, or of what is this request's own.

        Raises the fault of this attempt, or JudgeError when the judge rejects all that it is sent.
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
            # Another call may have changed the dialect meanwhile: then this one was asked in the old way.
            if self.dialect.version == version and not self._adapt(error.complaint, sent):
                raise self._rejection(error.fault)
        raise Rejected("the judge rejects every way of asking that is known")

    def _adapt(self, complaint: str, sent: Mapping[str, object]) -> bool:
        if self.dialect.adapt(complaint, sent):
            return True
        # What nests says how and where the user's data are handled: it is kept, or the request fails.
        plain = (name for name, value in self._parameters.items() if not isinstance(value, dict | list))
        return any(self.dialect.drop_parameter(name, complaint) for name in plain)

    def _rejection(self, fault: Rejected) -> Fault | JudgeError:
        self._rejected += 1
        if self.succeeded or self._rejected < _HOPELESS:
            return fault
        return JudgeError(
            f"the judge rejected all of its first {self._rejected} requests: {fault.reason}",
            where="judge",
            mend="Check judge.name, judge.base_url and judge.parameters against the provider's documentation.",
        )
