"""Bounds of metrics that stand in Python source, with the direction of their comparison."""

from __future__ import annotations

import pytest

from ragstone.golden.aliases import normal
from ragstone.tools.migrate.python_bounds import bounds_in

METRICS = ("faithfulness", "hallucination", "house_style", "score")
CASES: dict[str, list[tuple[str, float, bool | None]]] = {
    "if score < 0.7: sys.exit(1)": [("score", 0.7, False)],
    "if score > 0.7: raise SystemExit": [("score", 0.7, True)],
    "if 0.7 > score:\n    print('low')\n    pytest.fail('low')": [("score", 0.7, False)],
    "if score >= 0.7:\n    print('good')\nelse:\n    exit(1)": [("score", 0.7, False)],
    "if not score >= 0.7: sys.exit(1)": [("score", 0.7, False)],
    "if score < 0.7: print('low')": [("score", 0.7, None)],
    "if score >= 0.9:\n    print(1)\nelif score >= 0.7:\n    print(2)\nelse:\n    exit(1)": [
        ("score", 0.9, None),
        ("score", 0.7, False),
    ],
    "assert score >= 0.7": [("score", 0.7, False)],
    'assert 0.2 > result["hallucination"]': [("hallucination", 0.2, True)],
    "assert not score < 0.7": [("score", 0.7, False)],
    "assert 0.7 <= score <= 1.0": [("score", 0.7, False), ("score", 1.0, True)],
    "assert result.faithfulness > FLOOR\nFLOOR = 0.8": [("faithfulness", 0.8, False)],
    "LIMIT = float(os.environ.get('LIMIT', '0.3'))\nassert hallucination <= LIMIT": [("hallucination", 0.3, True)],
    "MAX_HALLUCINATION: float = 0.2": [("hallucination", 0.2, True)],
    "house_style_threshold = 0.5": [("house_style", 0.5, None)],
    "THRESHOLDS = {'faithfulness': 0.8, **more, 'other': 0.9}": [("faithfulness", 0.8, None)],
    "assert score == 0.7": [],
    "assert score >= other_score": [],
    "score = 0.7": [],
    "FLOOR = FLOOR\nassert score > FLOOR": [],
    "assert score > True": [],
    "assert score >": [],
    "assert score > " + "f(" * 50 + "0.7" + ")" * 50: [("score", 0.7, False)],
    "x = " + "(" * 5000 + ")" * 5000: [],
    "x" + ".y" * 200_000: [],
    "\0": [],
}


@pytest.mark.parametrize("source", CASES, ids=lambda text: text[:40].encode("unicode_escape").decode())
def test_a_bound_has_the_direction_in_which_its_comparison_fails(source: str) -> None:
    found = bounds_in(source.encode(), lambda word: normal(word) if normal(word) in METRICS else None)
    assert [(one.metric, one.value, one.lower) for one in found] == CASES[source]


def test_a_bound_is_named_with_its_line() -> None:
    [bound] = bounds_in(b"\n\nassert (\n    score\n    > 0.7\n)\n", lambda word: word if word == "score" else None)
    assert bound.line == 5
