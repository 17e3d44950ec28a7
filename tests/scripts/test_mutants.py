"""The faults that `scripts/mutants.py` puts into the code, and which of them tests kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.mutants import mutants_of, outcome_with


def changed(source: str) -> dict[str, list[str]]:
    mutants = mutants_of("module.py", source.encode())
    return {
        kind: [mutant.apply(source.encode()).decode() for mutant in mutants if mutant.kind == kind]
        for kind in {mutant.kind for mutant in mutants}
    }


@pytest.mark.parametrize(
    ("source", "kind", "results"),
    [
        ("x = 1 if ready else 2", "negated branch", ["x = 1 if (not ready) else 2"]),
        ("y = [a for a in b if a.ok]", "negated filter", ["y = [a for a in b if (not a.ok)]"]),
        ("z = n == 3", "negated comparison", ["z = (n != 3)"]),
        ("z = n < 3", "shifted bound", ["z = (n <= 3)"]),
        ("z = n + 3", "arithmetic", ["z = (n - 3)"]),
        ("z = a and b or c", "dropped operand", ["z = (c)", "z = (a and b)", "z = (b) or c", "z = (a) or c"]),
        ("z = 'ü', n == 3", "negated comparison", ["z = 'ü', (n != 3)"]),
    ],
)
def test_a_mutant_changes_one_decision(source: str, kind: str, results: list[str]) -> None:
    assert sorted(changed(source)[kind]) == sorted(results)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: A | B) -> C | D: ...",
        "if TYPE_CHECKING:\n    import a",
        "x = 'a' + b",
        "x = f'{a + b}'",
        "x = 1 < y < 3",
    ],
)
def test_what_decides_nothing_is_left_as_it_is(source: str) -> None:
    assert changed(source) == {}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("assert is_adult(17) is False", "pass"),
        ("assert is_adult(18) is True", "fail"),
        ("while not is_adult(18): pass", "exceed the limit"),
    ],
)
def test_a_mutant_dies_if_a_test_fails_or_does_not_end(tmp_path: Path, statement: str, expected: str) -> None:
    source = b"def is_adult(age):\n    return age >= 18\n"
    (tmp_path / "ages.py").write_bytes(source)
    (tmp_path / "test_ages.py").write_text(f"from ages import is_adult\n\ndef test():\n    {statement}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers =\n    heavy\n")
    (mutant,) = [mutant for mutant in mutants_of("ages.py", source) if mutant.is_subtle]
    assert outcome_with(mutant, tmp_path, ["test_ages.py"], limit=5) == expected
    assert (tmp_path / "ages.py").read_bytes() == source
