"""A change of style between two runs: what is counted, when it is said, and where."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ragstone.gate.style import Style, style_of, style_shift
from tests.app.conftest import Ragstone, WriteRun, ragstone, write_run

__all__ = ["ragstone", "write_run"]

PLAIN = "The warranty of the kettle is two years, and it starts on the day of the delivery."
LISTED = """**Certainly!** Great question.

- The warranty of the kettle is two years.
- It starts on the day of the delivery, not on the day of the order.

I hope this helps: feel free to ask about anything else."""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (PLAIN, ""),
        (LISTED, "lists markup assurance"),
        ("1. Open the lid.\n2) Fill in water.", "lists"),
        ("The price - 3 euros - is fixed.\n- Not a list of one.", ""),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "markup"),
        ("Perhaps it is two years; I think so, but I am not sure.", "hedges"),
        ("Die Garantie gilt vermutlich zwei Jahre, das ist aber nicht sicher.", "hedges"),
        ("Bien sûr, la garantie est de deux ans et elle commence avec la livraison.", "assurance"),
        ("La garantía es quizás de dos años y empieza con la entrega.", "hedges"),
        ("保证期可能是两年。", "hedges"),
        ("もちろんです。保証期間は二年かもしれません。", "hedges assurance"),
    ],
)
def test_lists_markup_hedges_and_assurance_are_found_in_nine_languages(text: str, parts: str) -> None:
    found = style_of(text)
    assert {name for name, value in found.items() if name != "length" and value} == set(parts.split())


def test_words_are_not_counted_in_a_language_without_lists_of_them() -> None:
    found = style_of("Возможно, гарантия составляет два года.\n- раз\n- два")
    assert found.keys() == {"length", "lists", "markup"}
    assert found["lists"] == 1.0


def test_a_shift_has_its_size_and_what_did_not_change_is_not_named() -> None:
    now, then = style_of(LISTED), style_of(PLAIN)
    shift = style_shift([(now, then)] * 15 + [(then, then)] * 5)
    assert shift.keys() == {"length", "lists", "markup", "assurance"}
    assert shift["lists"] == (0.0, 0.75)
    before, after = shift["length"]
    assert before == pytest.approx(math.exp(then["length"]))
    assert after / before == pytest.approx(math.exp(0.75 * (now["length"] - then["length"])))
    assert style_shift([(then, then)] * 20) == {}
    assert style_shift([(now, then)]) == {}


def test_an_unchanged_style_is_seldom_named_however_answers_of_a_group_are_alike() -> None:
    rng = np.random.default_rng(3)
    named = grouped = 0
    for _ in range(200):
        habits = rng.random((8, 2))
        group = np.repeat(np.arange(8), 10)

        def draw(habit: np.ndarray) -> Style:
            return {"length": 5.0 + float(habit.sum()), "lists": float(rng.random() < habit[0])}

        pairs = [(draw(rng.permutation(habits[one])), draw(habits[one])) for one in group]
        named += bool(style_shift(pairs, group))
        alike = [(draw(habits[one]), draw(habits[(one + 1) % 8])) for one in group]
        grouped += bool(style_shift(alike, group))
    assert named <= 10
    assert grouped <= 10


IDS = [f"q{i:02}" for i in range(40)]


def test_a_line_says_it_above_the_fold_where_the_verdict_hangs_on_it_and_below_otherwise(
    ragstone: Ragstone, write_run: WriteRun, tmp_path: Path
) -> None:
    answers = [{one: text.replace("kettle", f"{one}: it is {one}, which") for one in IDS} for text in (PLAIN, LISTED)]
    write_run(tmp_path / "main", {"faithfulness": dict.fromkeys(IDS, 0.9)}, answers=answers[0])
    line = (
        "The style changed where faithfulness did, and judges favour long answers, lists, markup and assurance: "
        "check by people with ragstone label --where-sides-differ. 40 other answers: 122 % longer; lists in 100 %"
    )
    for name, value, code, above in (("worse", 0.7, 1, True), ("better", 1.0, 0, False), ("same", 0.9, 0, None)):
        write_run(tmp_path / name, {"faithfulness": dict.fromkeys(IDS, value)}, answers=answers[1])
        (tmp_path / "t.toml").write_text("[metrics.faithfulness]\nmax_drop = 0.02\n")
        found, out, err = ragstone("compare", "main", name, "--thresholds", "t.toml", "--format", "md")
        assert found == code, err
        first, _, folded = out.partition("<details>")
        plain = [part.replace("\\", "") for part in (first, folded)]
        assert [line[:60] in part for part in plain] == [above is True, above is False]
    for name, recall in (("found", 0.9), ("lost", 0.5)):  # which does not depend on how an answer is written
        side = answers[name == "lost"]
        write_run(tmp_path / name, {"context_recall": dict.fromkeys(IDS, recall)}, answers=side)
    assert "style" not in ragstone("compare", "found", "lost", "--format", "json")[1]
    *_, out = ragstone("compare", "main", "better", "--thresholds", "t.toml", "--format", "json")[:2]
    assert line in out
