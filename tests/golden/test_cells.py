"""Lists that were written into one cell."""

from __future__ import annotations

import pytest

from ragstone.golden.cells import CellError, contexts, passages


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('["One.", "Two."]', ("One.", "Two.")),
        ("['It\\'s one.', \"Two's\"]", ("It's one.", "Two's")),
        ("['One.\\nTwo lines.' 'Two.'\n 'Three.']", ("One.\nTwo lines.", "Two.", "Three.")),
        ("array(['One [1].', 'Two.'], dtype=object)", ("One [1].", "Two.")),
        ("[array(['One.', 'Two.'], dtype=object)]", ("One.", "Two.")),
        ("('One.', 'Two.')", ("One.", "Two.")),
        ("['One.', nan, None]", ("One.",)),
        ("[Document(page_content='One.', metadata={'source': 'a.md'})]", ("One.",)),
        ("[Document(id='7', metadata={}, page_content='One.'), Document(page_content='Two.')]", ("One.", "Two.")),
        ("[{'text': 'One.', 'id': 7}]", ("One.",)),
        ("[1] is a citation.", ("[1] is a citation.",)),
        ('("Agreement") is the word.', ('("Agreement") is the word.',)),
        ("Use np.array([1, 2]) here.", ("Use np.array([1, 2]) here.",)),
        ("['Use np.array([1]) here.', 'Two.']", ("Use np.array([1]) here.", "Two.")),
        ("One. | Two.", ("One.", "Two.")),
        ("[]", ()),
    ],
)
def test_every_notation_of_a_list_is_read(cell: str, expected: tuple[str, ...]) -> None:
    assert contexts(cell) == expected


@pytest.mark.parametrize(
    "cell",
    ["['One", "['One', 'Two", "['One' ... 'Nine']", '["One" "Two]', "array([", "[Document(page_content=...", "['a | b"],
)
def test_what_begins_like_a_list_and_is_none_is_refused(cell: str) -> None:
    with pytest.raises(CellError, match="begins like a list"):
        passages(cell)


@pytest.mark.parametrize(
    "cell",
    ["array([" + "],dtype=" * 1_000_000, "[" + "Node" * 1_000_000, "['a'" + " " * 5_000_000, "['" + "\\'" * 2_000_000],
    ids=["dtypes", "nodes", "spaces", "escapes"],
)
def test_a_cell_of_megabytes_takes_linear_time(cell: str) -> None:
    """With backtracking it would take hours."""
    with pytest.raises(CellError):
        contexts(cell)
