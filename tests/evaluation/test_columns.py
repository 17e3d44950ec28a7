"""The columns that hold what is known of a run's samples: mappings by id, as dictionaries would be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.evaluation.columns import Digests, Ids, Numbers, Repeated, Rows
from ragstone.evaluation.scores import fingerprint

ids = st.lists(st.text(max_size=4), unique=True, max_size=8)


def rows_of(names: list[str]) -> Rows:
    return Rows({name: row for row, name in enumerate(names)})


def agrees(column: Mapping[str, object], expected: dict[str, object], names: list[str]) -> bool:
    """Whether `column` does all that `expected` does."""
    missing = [name for name in (*names, "no such id") if name not in expected]
    return (
        column == expected
        and list(column) == list(expected)
        and len(column) == len(expected)
        and column.keys() == expected.keys()
        and not any(name in column for name in missing)
        and all(column.get(name) is None for name in missing)
    )


@given(ids, st.data())
def test_numbers_are_a_mapping_of_the_samples_that_have_one(names: list[str], data: st.DataObject) -> None:
    values = [data.draw(st.none() | st.floats(0, 1)) for _ in names]
    column: Numbers[float] = Numbers("d")
    for value in values:
        column.append(value)
    expected = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    assert agrees(column.column(rows_of(names)), dict(expected), names)


@given(ids, st.data())
def test_repeated_values_are_kept_once(names: list[str], data: st.DataObject) -> None:
    values = [data.draw(st.none() | st.sampled_from(["the judge failed", "no reference", ""])) for _ in names]
    column: Repeated[str] = Repeated()
    for value in values:
        column.append(value and str(value.encode(), "ascii"))  # equal, but another object
    expected = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    found = column.column(rows_of(names))
    assert agrees(found, dict(expected), names)
    assert len({id(found[name]) for name in found}) == len(set(expected.values()))


@given(ids, st.data())
def test_digests_are_those_of_the_answers_that_were_given(names: list[str], data: st.DataObject) -> None:
    some = st.none() | st.sampled_from([fingerprint(text) for text in ("a", "b", "…", "0" * 99)])
    values = [(data.draw(some), data.draw(some)) for _ in names]
    column = Digests(2)
    for value in values:
        column.append(value)
    there = {name: tuple(one for one in value if one is not None) for name, value in zip(names, values, strict=True)}
    assert agrees(column.column(rows_of(names)), {name: value for name, value in there.items() if value}, names)


def test_an_unknown_sample_is_a_key_error() -> None:
    column: Numbers[float] = Numbers("d")
    column.append(None)
    for name in ("a", "b"):
        with pytest.raises(KeyError, match=name):
            column.column(rows_of(["a"]))[name]


def numbered(names: list[str]) -> Rows:
    found = Ids()
    assert all(map(found.add, names))
    return found.rows()


def test_runs_of_the_same_samples_share_their_ids() -> None:
    first = numbered(["a", "b"])
    assert numbered(["a", "b"]) is first
    assert numbered(["b", "a"]) is not first


@given(ids, ids)
def test_ids_are_numbered_as_they_come_whatever_was_read_before(before: list[str], names: list[str]) -> None:
    earlier = numbered([*before, "one more"])
    found = Ids()
    for row, name in enumerate(names):
        assert found.get(name) is None
        assert found.add(name)
        assert not found.add(name)
        assert (found.get(name), len(found)) == (row, row + 1)
    assert list(found) == names
    assert found.rows() == rows_of(names)
    assert earlier == rows_of([*before, "one more"])
