"""What is known of many samples in little memory: arrays with a number per record, read as mappings by sample id."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from itertools import islice, repeat
from typing import Any, ClassVar, Generic, TypeVar

_Value = TypeVar("_Value")
_Shared = TypeVar("_Shared", bound=Hashable)
_Number = TypeVar("_Number", int, float)

_NO_DIGEST = 2**64 - 1
_EMPTY_DIGEST = 2**64 - 2


class Rows(dict[str, int]):
    """The row of each sample by its id, in order."""


class Ids(Set[str]):
    """Numbers samples as they come. Runs of the same samples, in the same order, share their `rows`."""

    _newest: ClassVar[weakref.WeakValueDictionary[str, Rows]] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self._rows = self._newest.get("rows", Rows())
        self._expected: Iterator[str] | None = iter(self._rows)
        self._count = 0

    def add(self, sample_id: str) -> bool:
        """Give a sample the next row; False if it has one."""
        if self._expected is not None and next(self._expected, None) != sample_id:
            self._rows, self._expected = Rows(islice(self._rows.items(), self._count)), None
        if self._expected is None and self._rows.setdefault(sample_id, self._count) != self._count:
            return False
        self._count += 1
        return True

    def get(self, sample_id: str) -> int | None:
        row = self._rows.get(sample_id)
        return row if row is not None and row < self._count else None

    def __contains__(self, sample_id: object) -> bool:
        return isinstance(sample_id, str) and self.get(sample_id) is not None

    def __iter__(self) -> Iterator[str]:
        return islice(self._rows, self._count)

    def __len__(self) -> int:
        return self._count

    def rows(self) -> Rows:
        if len(self._rows) != self._count:
            self._rows, self._expected = Rows(islice(self._rows.items(), self._count)), None
        self._newest["rows"] = self._rows
        return self._rows


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


class _Array:
    """A number per row. Nothing is stored before the first row that is not `absent`."""

    def __init__(self, code: str, absent: float) -> None:
        self._numbers: array[Any] = array(code)
        self._absent = absent
        self._skipped = 0

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def _append(self, number: float) -> None:
        if self._numbers:
            self._numbers.append(number)
        elif number == self._absent:
            self._skipped += 1
        else:
            self._numbers.extend(repeat(self._absent, self._skipped))
            self._numbers.append(number)

    def _column(self, rows: Rows, decode: Callable[[Any], _Value]) -> Mapping[str, _Value]:
        return Column(rows, self._numbers, decode, self._absent) if self._numbers else {}


class Numbers(_Array, Generic[_Number]):
    """A column of numbers other than -1, in an array of the type `code`."""

    def __init__(self, code: str) -> None:
        super().__init__(code, -1)

    def append(self, number: _Number | None) -> None:
        self._append(-1 if number is None else number)

    def column(self, rows: Rows) -> Mapping[str, _Number]:
        return self._column(rows, lambda number: number)


class Repeated(_Array, Generic[_Shared]):
    """A column of values that are often the same: each is kept once."""

    def __init__(self) -> None:
        super().__init__("i", -1)
        self._places: dict[_Shared, int] = {}
        self._listed: list[_Shared] = []

    def append(self, value: _Shared | None) -> None:
        place = -1 if value is None else self._places.setdefault(value, len(self._listed))
        if value is not None and place == len(self._listed):
            self._listed.append(value)
        self._append(place)

    def value(self, row: int) -> _Shared:
        """The value of a row that has one."""
        place: int = self._numbers[row]
        return self._listed[place]

    def column(self, rows: Rows) -> Mapping[str, _Shared]:
        return self._column(rows, self._listed.__getitem__)


class Digests(_Array):
    """A column of `fingerprint`s: several per row, of which some may be missing."""

    def __init__(self, per_row: int = 1) -> None:
        super().__init__("Q", _NO_DIGEST)
        self._per_row = per_row

    def append(self, digests: Sequence[str | None]) -> None:
        for one in digests:
            self._append(_NO_DIGEST if one is None else int(one, 16) if one else _EMPTY_DIGEST)

    def row(self, number: int) -> tuple[str, ...]:
        """The fingerprints of a row that are there."""
        found = self._numbers[number * self._per_row : (number + 1) * self._per_row]
        return tuple(_hexadecimal(one) for one in found if one != _NO_DIGEST)

    def column(self, rows: Rows) -> Mapping[str, tuple[str, ...]]:
        width, numbers = self._per_row, self._numbers
        if width == 1:
            return self._column(rows, lambda number: (_hexadecimal(number),))
        if not numbers:
            return {}
        given = (any(one != _NO_DIGEST for one in numbers[at : at + width]) for at in range(0, len(numbers), width))
        return Column(rows, array("q", (row if there else -1 for row, there in enumerate(given))), self.row, -1)


def _hexadecimal(digest: int) -> str:
    return "" if digest == _EMPTY_DIGEST else f"{digest:016x}"
