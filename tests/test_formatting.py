"""Numbers as a reader wants them, and the same wherever one is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone import formatting


@pytest.mark.parametrize(
    ("threshold", "values", "digits"),
    [
        (0.85, [0.91], 2),
        (0.85, [0.849], 3),
        (0.85, [0.8501], 4),
        (None, [0.849], 2),
        (0.85, [None, 0.9], 2),
        (-0.02, [-0.0204], 4),
    ],
)
def test_figures_show_on_which_side_of_a_threshold_they_are(
    threshold: float | None, values: list[float | None], digits: int
) -> None:
    assert formatting.digits_for(threshold, values) == digits


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formatting.tally({"gone": 18, "new": 0, "reworded": 4}), ["18 gone", "4 reworded"]),
        (formatting.interval_words(0.714, 0.841, 0.95), "95 % interval 0.71 to 0.84"),
        (formatting.interval_words(0.1, 0.2, 0.9, formatting.percent), "90 % interval 10 % to 20 %"),
        (formatting.usual_reason(["time-out.", "refused.", "time-out."]), "time-out"),
        (formatting.score(-0.0), "0.00"),
        (formatting.score(None), "–"),
        (formatting.change(-0.061), "−0.06"),
        (formatting.change(0.061), "+0.06"),
        (formatting.change(0.0), "0"),
        (formatting.bound(0.9), "0.9"),
        (formatting.bound(1.0), "1"),
        (formatting.percent(0.9999), "99.99 %"),
        (formatting.percent(0.0001), "0.01 %"),
        (formatting.seconds(0.34), "340 ms"),
        (formatting.seconds(1.239), "1.24 s"),
        (formatting.seconds(200), "3 min 20 s"),
        (formatting.dollars(None), "cost unknown (no price configured)"),
        (formatting.dollars(0), "$0"),
        (formatting.dollars(0.004), "under $0.01"),
        (formatting.counted(1, "sample"), "1 sample"),
        (formatting.change(-0.001), "0.00"),
        (formatting.figure(0.849, 0.85), "0.849"),
        (formatting.figure(-0.0204, -0.02), "−0.0204"),
        (formatting.percent(0.975), "97.5 %"),
        (formatting.dollars(0.00001, 4), "under $0.0001"),
        (formatting.dollars(0.7, 4), "$0.7000"),
        (formatting.join_first([*"abcdefg"], 3), "a, b, c and 4 more"),
    ],
)
def test_numbers(shown: object, expected: object) -> None:
    assert shown == expected


@given(st.floats(0.0, 1.0))
def test_a_share_is_all_or_nothing_only_where_it_is(share: float) -> None:
    text = formatting.percent(share)
    assert (text == "100 %") == (share == 1.0)
    assert (text == "0 %") == (share == 0.0)


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_two_scores_that_differ_visibly_are_shown_apart(one: float, other: float) -> None:
    if abs(one - other) > 1e-4:
        assert formatting.figure(one, other) != formatting.score(other, formatting.digits_for(one, [other]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: bad row (rag.py, line 31)", "ValueError: bad row (rag.py, line 7)"),
        ("raised: no request req_9f3a in 1.25 s", "raised: no request req_77b1 in 0.5 s"),
        ("OSError: <Socket object at 0x7f01> is closed", "OSError: <Socket object at 0x7aff> is closed"),
        ("Returned {'reply': 'It is red.'} (dict).", "Returned {'reply': 'Up to 30 days.'} (dict)."),
        ("KeyError: 'q-17'", "KeyError: 'q-18'"),
    ],
)
def test_reasons_that_differ_in_a_number_an_id_an_address_or_a_text_are_alike(one: str, other: str) -> None:
    assert formatting.reason_pattern(one) == formatting.reason_pattern(other)
    assert formatting.most_common([one, "Another.", "Another!", other]) == min(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http: Answered 500: down", "http: Answered 429: down"),
        ("The command exited with status 1.", "The command exited with status 2."),
        ("KeyError: 'OPENAI_API_KEY'", "KeyError: 'question'"),
        ("It can't be read.", "It isn't read."),
    ],
)
def test_reasons_with_another_status_or_another_name_are_not_alike(one: str, other: str) -> None:
    assert formatting.reason_pattern(one) != formatting.reason_pattern(other)
