"""The file that lists the gates: its patterns; and the rows of their comment, whatever their texts say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.job.changed import Change, UnknownChangeError, with_links
from ragstone.report.gates import GateRow, merged_rows, read_rows, render_gates

SHA = "a" * 40


def changed(*files: str) -> Change:
    return Change(frozenset(files))


@pytest.mark.parametrize(
    ("patterns", "file", "expected"),
    [
        (["services/search/**"], "services/search/a/b.py", True),
        (["services/search/**"], "services/search", False),
        (["services/search"], "services/search/a.py", True),
        (["services/search/"], "services/search/a.py", True),
        (["services/search"], "services/search2/a.py", False),
        (["services/*/rag.py"], "services/search/rag.py", True),
        (["services/*/rag.py"], "services/a/b/rag.py", False),
        (["**/rag.py"], "rag.py", True),
        (["**/rag.py"], "a/b/rag.py", True),
        (["*.py"], "a/b.py", False),
        (["*.py"], "b.py", True),
        (["**"], "anything/at.all", True),
        (["./a.py"], "a.py", True),
        (["a.py"], "axpy", False),
        (["a+b(1)$.py"], "a+b(1)$.py", True),
        (["grüße/**"], "grüße/x", True),
        (["**", "!**/*.md"], "docs/a.md", False),
        (["**", "!docs/**", "docs/api/**"], "docs/api/a.md", True),
        (["!docs/**"], "src/a.py", False),
        (["**", "!**/*.md"], "docs.md/index.py", True),
        (["**", "!*.md"], "docs.md/index.py", True),
        (["**", "!docs/*"], "docs/index.md", False),
        ([], "a", False),
    ],
)
def test_patterns(patterns: list[str], file: str, expected: bool) -> None:
    assert changed(file).touches(patterns) is expected
    assert changed("neither/nor.txt", file).touches(patterns) is (expected or patterns[:1] == ["**"])


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["libs/**"], True),
        (["libs/*/prompts/**"], True),
        (["**/prompts/*.txt"], True),
        (["libs"], True),
        (["li*/a.py"], True),
        (["services/**"], False),
        (["libs2/**"], False),
        (["**", "!libs/**"], False),
        (["**", "!libs"], False),
        (["**", "!libs/*.md"], True),
        (["**", "!libs/docs/**"], True),
    ],
)
def test_a_moved_submodule_or_link_may_change_all_that_is_below_it(patterns: list[str], expected: bool) -> None:
    assert Change(frozenset({"libs"}), frozenset({"libs"})).touches(patterns) is expected


@pytest.mark.parametrize(
    ("links", "file", "pattern", "expected"),
    [
        ({"rag/prompts": "shared/prompts"}, "shared/prompts/a.txt", "rag/**", True),
        ({"rag/prompts": "shared/prompts"}, "shared/prompts2/a.txt", "rag/**", False),
        ({"rag/a.txt": "shared/a.txt"}, "shared/a.txt", "rag/*.txt", True),
        ({"rag/all": "."}, "shared/a.txt", "rag/all/shared/*", True),
        ({"rag/one": "other/two", "other/two": "three"}, "three/a.txt", "rag/**", True),
        ({"rag/one": "rag"}, "rag/a.txt", "rag/one/one/a.txt", True),
    ],
)
def test_what_a_link_leads_to_is_changed_under_its_name(
    links: dict[str, str], file: str, pattern: str, expected: bool
) -> None:
    assert with_links(changed(file), links).touches([pattern]) is expected


def test_a_link_into_a_submodule_moves_with_it() -> None:
    moved = Change(frozenset({"libs"}), frozenset({"libs"}))
    assert with_links(moved, {"rag/prompts": "libs/prompts"}).touches(["rag/prompts/*.txt"])
    assert not with_links(moved, {"rag/prompts": "lib/prompts"}).touches(["rag/prompts/*.txt"])


@pytest.mark.parametrize("target", [".", "a", "a/b"])
def test_hostile_links_end_in_an_error_rather_than_in_millions_of_names(target: str) -> None:
    files = frozenset(f"a/b/{number}.txt" for number in range(300))
    with pytest.raises(UnknownChangeError, match="too many names"):
        with_links(Change(files), {f"link{number}": target for number in range(5_000)})


def test_links_that_lead_to_each_other_end() -> None:
    found = with_links(changed("a/x.txt"), {"a/self": "a", "b": "a", "a/b": "b"})
    assert found.touches(["b/x.txt"])
    assert found.touches(["a/self/self/x.txt"])
    assert all(file.endswith("x.txt") for file in found.files)


@pytest.mark.parametrize(
    ("path", "expected"), [("libs", True), ("libs/a.py", True), ("a/b.py", True), ("a", True), ("a/b", False)]
)
def test_a_path_is_touched_by_what_is_at_below_or_around_it(path: str, expected: bool) -> None:
    assert Change(frozenset({"libs", "a/b.py"}), frozenset({"libs"})).touches_path(path) is expected


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not changed("a" * 5_000).touches(["**a" * 150 + "b"])


def row(gate: str = "search", run_id: int = 1, sha: str = SHA, **more: object) -> GateRow:
    given = {"verdict": "fail", "reason": "no", "url": "https://github.com/acme/rag/actions/runs/1", **more}
    return GateRow.model_validate({"gate": gate, "run_id": run_id, "sha": sha, **given})


TEXT = st.text(max_size=300)
HOSTILE = st.sampled_from(
    ["-->", "\n<!-- ragstone:rows:AAAA -->", "| ✅ | `b` | pass |", "</details>", "@team", "\x00"]
)


@given(st.lists(st.tuples(st.one_of(TEXT, HOSTILE), st.one_of(TEXT, HOSTILE)), min_size=1, max_size=8))
def test_rows_come_back_as_they_were_written(texts: list[tuple[str, str]]) -> None:
    texts = [(one.encode("utf-8", "replace").decode(), two.encode("utf-8", "replace").decode()) for one, two in texts]
    rows = merged_rows(row(f"g{n}", reason=one, details=(two,)) for n, (one, two) in enumerate(texts))
    content = render_gates(rows, {f"g{n}": True for n in range(len(texts))}, limit=60_000)
    assert read_rows(content) == rows
    shown = content.partition("\n")[2]
    assert "<!--" not in shown
    assert sum(line.startswith("| ❌") for line in shown.splitlines()) == len(rows)


@pytest.mark.parametrize("content", ["", "text", "<!-- ragstone:rows:AAAA -->", "<!-- ragstone:rows:!! -->", "\n\n"])
def test_anything_else_is_no_rows(content: str) -> None:
    assert read_rows(content) == ()


def test_rows_below_the_first_line_do_not_count() -> None:
    state = render_gates([row()], {"search": True}, limit=60_000).partition("\n")[0]
    assert read_rows(f"quoted\n{state}") == ()
    assert read_rows(state) == (row(),)


def test_a_bomb_is_not_unpacked() -> None:
    import base64
    import zlib

    bomb = base64.b64encode(zlib.compress(b" " * 50_000_000)).decode()
    assert read_rows(f"<!-- ragstone:rows:{bomb} -->") == ()


def test_two_hundred_gates_with_much_to_say_fit_a_comment() -> None:
    rows = merged_rows(
        row(f"gate-{n}", reason=f"{n} " + "ÄÖÜ" * 120, details=("x" * 390, "y" * 390)) for n in range(200)
    )
    content = render_gates(rows, {one.gate: True for one in rows}, limit=65_000)
    assert len(content) <= 65_000
    assert {one.gate for one in read_rows(content)} == {one.gate for one in rows}


def test_the_newest_run_and_attempt_of_a_gate_count() -> None:
    old, new, again = row(run_id=1, reason="old"), row(run_id=2, reason="new"), row(run_id=2, attempt=2, reason="again")
    assert merged_rows([again, new], [old]) == (again,)
    assert merged_rows([old], [new]) == (new,)
