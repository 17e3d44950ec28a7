"""Answer relevancy on our own cases: ``python bench/relevancy_cases.py``.

Prints the shares of right short answers from 0.8, of wrong ones that no text holds up to 0.3, and of true sentences
about another subject below 0.2, each judged with contexts and a reference, and with one of them; the mean of halves of
right answers ÷ the mean of the whole ones, and by how much two true sentences about other subjects lower these, with
contexts, and with a reference or without; and evasive answers. All through `ragstone.evaluate`. It needs no data. These
cases have served for tuning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from answer_styles import load_facts
from labelled_sets import Case
from public_scores import public_scores

SHOP = """Customers may return items within 30 days of delivery, with a receipt. Refunds are paid to the original card
within 5 working days. Sale items can't be returned, because their price is already reduced. Parcels leave the warehouse
in Leeds every morning at 9:30. The shop was founded by Ada Brown in 1998. Gift cards are valid for 24 months."""
TOWN = """The harbour bridge was opened in 1932 by Mayor Harold Finch. It is 1,149 metres long and carries eight lanes.
Its engineer, Mary Okafor, lived in Sydney. The bridge is painted grey, since no other colour was available in such
quantity. Cyclists use the western side. The toll is 3 dollars, and buses are exempt from it."""

ANSWERS = (
    (SHOP, "How long do customers have to return an item?", "30 days.", "60 days.", "Within 30 days of delivery."),
    (SHOP, "What is the return window?", "30 days.", "60 days.", "Customers may return items within 30 days."),
    (SHOP, "Can I return an item?", "Yes, with a receipt.", "No, never.", "Yes, within 30 days, with a receipt."),
    (SHOP, "How fast are refunds paid?", "Within 5 working days.", "Within 9 working days.", "In 5 working days."),
    (SHOP, "Where are refunds paid to?", "The original card.", "A new account.", "They go to the original card."),
    (SHOP, "Which items can't be returned?", "Sale items.", "Frozen food.", "Sale items can't be returned."),
    (SHOP, "What do I need for a return?", "A receipt.", "A passport.", "You need a receipt for it."),
    (SHOP, "Where do parcels leave from?", "Leeds.", "York.", "They leave the warehouse in Leeds."),
    (SHOP, "When do parcels leave?", "Every morning at 9:30.", "Every evening at 6:45.", "They leave at 9:30."),
    (SHOP, "Who founded the shop?", "Ada Brown.", "Ben Green.", "The shop was founded by Ada Brown."),
    (SHOP, "When was the shop founded?", "In 1998.", "In 2004.", "It was founded in 1998."),
    (SHOP, "How long are gift cards valid?", "24 months.", "12 months.", "Gift cards are valid for 24 months."),
    (SHOP, "Are sale items returnable?", "No.", "Yes.", "No, sale items can't be returned."),
    (
        SHOP,
        "Why can't sale items be returned?",
        "Because of the price.",
        "Because of damage.",
        "Their price is reduced.",
    ),
    (TOWN, "When was the bridge opened?", "In 1932.", "In 1957.", "It was opened in 1932."),
    (TOWN, "Who opened the bridge?", "Mayor Harold Finch.", "Queen Victoria.", "It was opened by Mayor Harold Finch."),
    (TOWN, "How long is the bridge?", "1,149 metres.", "2,300 metres.", "The bridge is 1,149 metres long."),
    (TOWN, "How many lanes does it carry?", "Eight.", "Six.", "It carries eight lanes."),
    (TOWN, "What colour is the bridge?", "Grey.", "Green.", "It is painted grey."),
    (TOWN, "Which side do cyclists use?", "The western side.", "The eastern side.", "Cyclists use the western side."),
    (TOWN, "How much is the toll?", "3 dollars.", "7 dollars.", "The toll is 3 dollars."),
    (TOWN, "Do buses pay the toll?", "No, they are exempt.", "Yes, they pay double.", "No, buses are exempt from it."),
    (TOWN, "In which city did the engineer live?", "Sydney.", "Perth.", "She lived in Sydney."),
    (TOWN, "What is the engineer's name?", "Mary Okafor.", "Jane Smith.", "The engineer was Mary Okafor."),
)
"""A page, a question, a right short answer, a wrong one, and a reference."""

SUBJECTS = (
    "The capital of France is Paris.",
    "Bees live in hives near orchards.",
    "Penguins eat fish in the cold southern seas near Chile.",
    "Water boils at 100 degrees Celsius at sea level.",
    "Mount Everest is the highest mountain on Earth.",
    "Shakespeare wrote Hamlet around the year 1600.",
    "The heart pumps blood through the body.",
    "Photosynthesis turns light into chemical energy.",
    "Mozart was born in Salzburg in 1756.",
    "Gold is a soft yellow metal.",
    "The Nile flows north into the Mediterranean Sea.",
    "Chess is played on a board of 64 squares.",
    "Owls hunt mice at night.",
    "The violin has four strings.",
    "Saturn has rings of ice and rock.",
    "Whales are mammals that breathe air.",
)
"""True, and about nothing that is asked above."""


EVASIVE = (
    (SHOP, "What is the mission of the shop?", "The mission has not been provided; the mission is important."),
    (
        SHOP,
        "What is the mission of the shop?",
        "The mission of the shop is not specified, but the shop is interesting.",
    ),
    (
        TOWN,
        "Who designed the harbour bridge?",
        "The harbour bridge has several aspects, and its designer is not known.",
    ),
    (TOWN, "Why is the bridge grey?", "The bridge is grey for various reasons."),
    (
        TOWN,
        "Wer hat die Brücke entworfen?",
        "Wer die Brücke entworfen hat, ist nicht angegeben; die Brücke ist wichtig.",
    ),
)
"""A page, a question, and an answer that only echoes it."""

UNHELD = (
    ("Who designed the Vell bridge?", "Water boils at 100 degrees Celsius."),
    ("Who designed the Vell bridge?", "Elvis Presley."),
    ("Where is the office?", "Elvis Presley."),
    ("How long is the warranty?", "Twelve monkeys."),
    ("How long is the warranty?", "36 months."),
    ("Wann öffnet das Museum?", "Der Bus hat 12 Plätze."),
    ("Wann öffnet das Museum?", "Im Jahr 1871."),
)
"""A question, and a short answer that no text at hand holds."""


def cases() -> Iterator[tuple[str, Case]]:
    for at, (page, question, right, wrong, reference) in enumerate(ANSWERS):
        others = {f"other{rank}": SUBJECTS[(5 * at + rank) % len(SUBJECTS)] for rank in range(4)}
        for name, answer in {"right": right, "wrong": wrong, **others}.items():
            yield f"{name}/{at}/both", Case(question, answer, (page,), reference)
            yield f"{name}/{at}/contexts", Case(question, answer, (page,))
            yield f"{name}/{at}/reference", Case(question, answer, (), reference)
    for at, (page, question, answer) in enumerate(EVASIVE):
        yield f"evasive/{at}/contexts", Case(question, answer, (page,))
    for at, (question, answer) in enumerate(UNHELD):
        yield f"unheld/{at}/alone", Case(question, answer)
        yield f"unheld/{at}/contexts", Case(question, answer, (SHOP, TOWN))
    yield from changed_answers()


def changed_answers() -> Iterator[tuple[str, Case]]:
    """Right answers of tests/bench/answers.jsonl, whole, in halves, and with two sentences about other subjects."""
    for at, facts in enumerate(load_facts()):
        between = "" if facts.language in ("zh", "ja") else " "
        sentences = list(facts.right)
        whole = between.join(sentences)
        middle = max(1, len(sentences) // 2)
        words = whole.split()
        padding = [SUBJECTS[(3 * at + rank) % len(SUBJECTS)] for rank in range(6)]
        texts = {
            "whole": whole,
            "half0": between.join(sentences[:middle]),
            "half1": between.join(sentences[middle:]),
            "half2": " ".join(words[: len(words) // 2]) if len(words) > 1 else whole[: len(whole) // 2],
            "padded0": f"{whole} {padding[0]} {padding[1]}",
            "padded1": f"{padding[2]} {whole} {padding[3]}",
            "padded2": f"{padding[4]} {padding[5]} {whole}",
        }
        for name, answer in texts.items():
            yield f"{name}/{at}/both", Case(facts.question, answer, facts.contexts, whole)
            yield f"{name}/{at}/contexts", Case(facts.question, answer, facts.contexts)


def shares(scores: Mapping[str, float]) -> dict[str, float]:
    """The figures, by what was given besides the question."""
    found = {}
    for given in ("both", "contexts", "reference"):
        right = [scores[f"right/{at}/{given}"] for at in range(len(ANSWERS))]
        wrong = [scores[f"wrong/{at}/{given}"] for at, row in enumerate(ANSWERS) if not _is_yes_or_no(row[3])]
        others = [scores[f"other{rank}/{at}/{given}"] for at in range(len(ANSWERS)) for rank in range(4)]
        found[f"right from 0.8, {given}"] = sum(value >= 0.8 for value in right) / len(right)
        found[f"wrong up to 0.3, {given}"] = sum(value <= 0.3 for value in wrong) / len(wrong)
        found[f"another subject below 0.2, {given}"] = sum(value < 0.2 for value in others) / len(others)
    for given in ("both", "contexts"):
        whole = _mean(scores, "whole", given)
        halves = fmean(_mean(scores, f"half{rank}", given) for rank in range(3))
        padded = fmean(_mean(scores, f"padded{rank}", given) for rank in range(3))
        found[f"halves, {given}"] = halves / whole
        found[f"lost by padding, {given}"] = whole - padded
    for name in ("evasive", "unheld"):
        found[f"largest {name}"] = max(value for key, value in scores.items() if key.startswith(name))
    return found


def _mean(scores: Mapping[str, float], name: str, given: str) -> float:
    return fmean(value for key, value in scores.items() if key.startswith(f"{name}/") and key.endswith(f"/{given}"))


def _is_yes_or_no(answer: str) -> bool:
    return answer.split()[0].strip(".,") in ("Yes", "No")


def judged() -> Mapping[str, float]:
    return public_scores(dict(cases()), ["answer_relevancy"])["answer_relevancy"]


def main() -> None:
    scores = judged()
    for name, share in shares(scores).items():
        print(f"{name}: {share:.3f}")
    for name, value in scores.items():
        kind, at, _ = name.split("/")
        if (kind == "right" and value < 0.8) or (kind.startswith("other") and value >= 0.2):
            print(f"  {name}: {value:.2f} {ANSWERS[int(at)][1:3]}")
        if kind == "wrong" and value > 0.3:
            print(f"  {name}: {value:.2f} {ANSWERS[int(at)][1:4]}")


if __name__ == "__main__":
    main()
