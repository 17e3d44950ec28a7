"""What stands in a context word for word is supported, and marks go only where they are emphasis."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.judge.judgements import Support, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.sentences import split_sentences
from ragstone.report.escape import markdown_inline
from ragstone.system.response import Context
from tests.judge.offline.cases import CASES

CALL = Call("s")

PASSAGES = CASES["passages"]


def supports(context: str, answer: str) -> list[tuple[str, Support]]:
    """The verdict on each statement of `answer`, with its text."""

    async def judged() -> list[tuple[str, Support]]:
        judge = OfflineJudge()
        try:
            listed = (await judge.statements("What?", answer, call=CALL)).statements
        except JudgementFailed:  # there is too little text
            return []
        if not listed:
            return []
        table = await judge.support([Context("Bees live in hives."), Context(context)], listed, call=CALL)
        return [(one.text, each) for one, each in zip(listed, table.supports, strict=True)]

    return asyncio.run(judged())


def all_supported(context: str, answer: str) -> None:
    wrong = {text: each for text, each in supports(context, answer) if each.verdict is not Verdict.SUPPORTED}
    assert not wrong


@pytest.mark.parametrize("code", PASSAGES)
def test_a_passage_supports_all_that_it_says_in_every_language(code: str) -> None:
    all_supported(PASSAGES[code], PASSAGES[code])
    for sentence in split_sentences(PASSAGES[code], code):
        all_supported(PASSAGES[code], sentence)


@pytest.mark.parametrize("text", CASES["marked"])
def test_names_arguments_globs_placeholders_and_code_keep_their_marks(text: str) -> None:
    assert split_sentences(text, "en") == [text]
    shown = [one for one, _ in supports(text, text)]
    assert " ".join(shown) == text
    assert "**kwargs" not in text or "\\*\\*kwargs" in markdown_inline(shown[0])


def test_rows_of_tables_and_of_code_stay_letter_by_letter() -> None:
    text = (
        "Before it.\n\n| key | `a**b**c` |\n|---|---|\n| __all__ | <id> |\n\n"
        "```python\nx = a**b**c\n# **note**\n```\nAfter."
    )
    assert split_sentences(text, "en") == [
        "Before it.",
        "| key | `a**b**c` |",
        "| __all__ | <id> |",
        "x = a**b**c",
        "# **note**",
        "After.",
    ]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("**Note:** it is ***very*** __really important__ here.", "Note: it is very really important here."),
        ("## A heading", "A heading"),
        ("> quoted\n> in **two\n> lines**", "quoted in two lines"),
        ("<p>Some <b>bold</b> <a href='x'>text</a><br></p>", "Some bold text"),
        ("这是**重要**的。", "这是重要的。"),
        ("**1.** item", "item"),
    ],
)
def test_emphasis_headings_quotes_and_tags_go(text: str, bare: str) -> None:
    assert split_sentences(text, "en") == [bare]


@given(
    st.lists(st.sampled_from(["**", "__", "`", "<b>", "</b>", "a", "kwargs", " ", "\n", "# ", "> ", "*", "|", "```"]))
)
def test_no_word_is_lost_with_the_marks(parts: list[str]) -> None:
    text = "".join(parts)
    kept = "".join(split_sentences(text, "en"))
    assert kept.count("kwargs") == text.count("kwargs") or "```" in text
