"""A sequence that leaves memory when it is long: many values are in a temporary file, one chunk at a time in memory."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import BinaryIO, TypeVar, overload

MAX_IN_MEMORY = 10_000
"""A longer sequence is written to a file."""

_CHUNK = 1_000

_Value = TypeVar("_Value")


class Spool(Sequence[_Value]):
    """Values in the order in which they were appended, in a file that no other process can open by a name."""

    def __init__(self) -> None:
        self._head: list[_Value] = []
        self._tail: list[_Value] = []
        self._file: BinaryIO | None = None
        self._ends = array("Q", [0])
        self._loaded: tuple[int, list[_Value]] = (-1, [])

    def append(self, value: _Value) -> None:
        """Add a value at the end. Raises OSError if the file can't be written."""
        if len(self._head) < MAX_IN_MEMORY:
            self._head.append(value)
            return
        self._tail.append(value)
        if len(self._tail) == _CHUNK:
            self._write()

    def _write(self) -> None:
        file = self._opened()
        file.seek(self._ends[-1])
        file.write(pickle.dumps(self._tail, pickle.HIGHEST_PROTOCOL))
        file.flush()
        self._ends.append(file.tell())
        self._tail = []

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            weakref.finalize(self, _close, self._file)
        return self._file

    def __len__(self) -> int:
        return len(self._head) + _CHUNK * (len(self._ends) - 1) + len(self._tail)

    def __iter__(self) -> Iterator[_Value]:
        yield from self._head
        for number in range(len(self._ends) - 1):
            yield from self._chunk(number)
        yield from self._tail

    @overload
    def __getitem__(self, place: int) -> _Value: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[_Value]: ...

    def __getitem__(self, place: int | slice) -> _Value | Sequence[_Value]:
        if isinstance(place, slice):
            return spooled(map(self.__getitem__, range(*place.indices(len(self)))))
        at = range(len(self))[place]
        if at < len(self._head):
            return self._head[at]
        number, within = divmod(at - len(self._head), _CHUNK)
        return self._tail[within] if number == len(self._ends) - 1 else self._chunk(number)[within]

    def _chunk(self, number: int) -> list[_Value]:
        if self._loaded[0] != number:
            file = self._opened()
            file.seek(self._ends[number])
            body = file.read(self._ends[number + 1] - self._ends[number])
            self._loaded = (number, pickle.loads(body))  # noqa: S301 - this process wrote it
        return self._loaded[1]


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # what could not be written was an error before
        file.close()


def spooled(values: Iterable[_Value]) -> Sequence[_Value]:
    """`values` as a sequence: a tuple, if there are few."""
    source = iter(values)
    first = tuple(islice(source, MAX_IN_MEMORY))
    if len(first) < MAX_IN_MEMORY:
        return first
    spool: Spool[_Value] = Spool()
    for value in chain(first, source):
        spool.append(value)
    return spool
