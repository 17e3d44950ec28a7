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

CALL = Call("s")

PASSAGES = {
    "en": "The bridge opened in 1932, and it does not carry lorries over 7.5 t. Nobody may stop on it. Tolls rose by 5 "
    "% in May; cyclists pay nothing. Set `__debug__` to False, or pass **kwargs to <branch>.",
    "de": "Die Brücke wurde 1932 eröffnet. Sie trägt keine Lastwagen über 7,5 t. Radfahrer zahlen nichts, aber Autos "
    "kosten 3 €. Niemand darf auf ihr anhalten.",
    "fr": "Le pont a ouvert en 1932. Il ne porte pas de camions de plus de 7,5 t. Les cyclistes ne paient rien.",
    "es": "El puente se abrió en 1932. No admite camiones de más de 7,5 t. Los ciclistas nunca pagan peaje.",
    "zh": "这座桥于1932年开放。它不允许超过7.5吨的卡车通行。骑自行车的人没有费用。",
    "ja": "この橋は1932年に開通した。7.5トンを超えるトラックは通れない。自転車は料金がかからない。",
    "ru": "Мост открылся в 1932 году. Грузовики тяжелее 7,5 т не допускаются. Велосипедисты ничего не платят.",
    "ar": "افتتح الجسر عام 1932. لا يسمح بمرور الشاحنات التي يزيد وزنها على 7.5 أطنان. لا يدفع راكبو الدراجات شيئا.",
    "hi": "पुल 1932 में खुला। इस पर 7.5 टन से भारी ट्रक नहीं चल सकते। साइकिल चालक कुछ नहीं देते।",
    "th": "สะพานเปิดใช้ในปี 1932 รถบรรทุกที่หนักเกิน 7.5 ตันห้ามผ่าน จักรยานไม่เสียค่าผ่านทาง",
}
MARKED = [
    "Set `__debug__` to 1 and read __name__ in __init__.py, or __init__ and __new__.",
    "Pass **kwargs on, or call f(*args, **kwargs) and g(**options).",
    "The glob src/**/*.py matches, and so do tests/** and **/*.md in ~/.config.",
    "Put <branch> and <your-name> in place, as in SELECT * FROM <table> or List<String>.",
    "x**2 + y**2 is 2 ** 3 ** 4 or (x)**2 + (y)**2.",
    "Run `git log --format=%H **bold** <b>x</b>` in C:\\dir\\__x__.",
    "Name: ____ and snake_case_name, #include <stdio.h>, argv `[1]` and >= 3.11.",
]


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


@pytest.mark.parametrize("text", MARKED)
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
