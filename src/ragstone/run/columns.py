"""What is known of many samples in little memory: arrays with a number per record, read as mappings by sample id."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")
_Shared = TypeVar("_Shared", bound=Hashable)

_NO_DIGEST = 2**64 - 1
_EMPTY_DIGEST = 2**64 - 2


class Rows(dict[str, int]):
    """The row of each sample by its id, in order. Runs of the same samples share one (`shared`)."""

    def shared(self) -> Rows:
        """An equal one, of a run that was read before, if there is one."""
        return _known.setdefault(hash(tuple(self)), self) if self else self


_known: weakref.WeakValueDictionary[int, Rows] = weakref.WeakValueDictionary()


class Column(Mapping[str, _Value]):
    """The values of some samples: `decode` makes them of the number of a row. A row with `absent` has none."""

    def __init__(self, rows: Rows, numbers: Sequence[float], decode: Callable[[Any], _Value], absent: float) -> None:
        self._rows = rows
        self._numbers = numbers
        self._decode = decode
        self._absent = absent
        self._length = len(numbers) - numbers.count(absent)

    def __getitem__(self, sample_id: str) -> _Value:
        number = self._numbers[self._rows[sample_id]]
        if number == self._absent:
            raise KeyError(sample_id)
        return self._decode(number)

    def __contains__(self, sample_id: object) -> bool:
        row = self._rows.get(sample_id)  # type: ignore[call-overload]
        return row is not None and self._numbers[row] != self._absent

    def __iter__(self) -> Iterator[str]:
        absent = self._absent
        return (sample_id for sample_id, number in zip(self._rows, self._numbers, strict=True) if number != absent)

    def __len__(self) -> int:
        return self._length


class Floats:
    """A column of numbers that are not negative."""

    def __init__(self) -> None:
        self._numbers = array("d")

    def append(self, value: float | None) -> None:
        self._numbers.append(-1.0 if value is None else value)

    def column(self, rows: Rows) -> Mapping[str, float]:
        return Column(rows, self._numbers, float, -1.0)


class Repeated(Generic[_Shared]):
    """A column of values that are often the same: each is kept once."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._places: dict[_Shared, int] = {}
        self._listed: list[_Shared] = []

    def append(self, value: _Shared | None) -> None:
        if value is None:
            self._numbers.append(-1)
            return
        place = self._places.setdefault(value, len(self._listed))
        if place == len(self._listed):
            self._listed.append(value)
        self._numbers.append(place)

    def value(self, row: int) -> _Shared:
        """The value of a row that has one."""
        return self._listed[self._numbers[row]]

    def column(self, rows: Rows) -> Mapping[str, _Shared]:
        return Column(rows, self._numbers, self._listed.__getitem__, -1) if self._listed else {}


class Digests:
    """A column of `fingerprint`s: several per row, of which some may be missing."""

    def __init__(self, per_row: int = 1) -> None:
        self._per_row = per_row
        self._numbers = array("Q")

    def append(self, digests: Sequence[str | None]) -> None:
        self._numbers.extend(_NO_DIGEST if one is None else int(one, 16) if one else _EMPTY_DIGEST for one in digests)

    def row(self, number: int) -> tuple[str, ...]:
        """The fingerprints of a row that are there."""
        found = self._numbers[number * self._per_row : (number + 1) * self._per_row]
        return tuple("" if one == _EMPTY_DIGEST else f"{one:016x}" for one in found if one != _NO_DIGEST)

    def column(self, rows: Rows) -> Mapping[str, tuple[str, ...]]:
        width, numbers = self._per_row, self._numbers
        given = (any(one != _NO_DIGEST for one in numbers[at : at + width]) for at in range(0, len(numbers), width))
        return Column(rows, array("q", (row if there else -1 for row, there in enumerate(given))), self.row, -1)


class Texts:
    """A column of texts, one after the other."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])

    def append(self, text: str) -> None:
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def row(self, number: int) -> str:
        return self._bytes[self._ends[number] : self._ends[number + 1]].decode("utf-8", "surrogatepass")
