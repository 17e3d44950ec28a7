"""Answers with bad feedback or low scores as drafts of golden samples, without personal
data that a rule finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragstone._version import __version__
from ragstone.errors import ConfigError, disk_errors
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.scores import RunScores
from ragstone.files import read_regular
from ragstone.gate.policy import Policy
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import MAX_FILE_BYTES
from ragstone.golden.sample import Review, Sample
from ragstone.settings.settings import Settings
from ragstone.tools.generate.checks import configured_samples, invalid_sample
from ragstone.tools.generate.near_duplicates import repeats
from ragstone.tools.monitor.interactions import Interaction
from ragstone.tools.monitor.personal import strip
from ragstone.tools.monitor.window import Window, is_bad

MAX_DRAFTS = 10
"""For each reason, per window."""

LEFT_OUT = "bad answers left out, nearly the same as a sample or another draft, or no valid sample"


def read_samples(file: Path, settings: Settings) -> Sequence[Sample]:
    """The samples of the golden set and of `file`, which drafts must not repeat.

    Raises ConfigError or GoldenSetError if they can't be read, or if no drafts can be
    added to `file`.
    """
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        raise ConfigError(
            "drafts are written as JSON Lines.",
            where=str(file),
            hint="Name a file that ends in .jsonl.",
        )
    golden_files = {settings.path(path).resolve() for path in settings.golden.paths}
    if settings.golden.columns and file.resolve() in golden_files:
        message = "has its own column mapping, so no drafts can be added to it."
        raise ConfigError(message, where=str(file), hint="Name another file.")
    own: Sequence[Sample] = ()
    if file.exists() and file.stat().st_size:
        golden_set = load_golden_set([str(file.absolute())])
        own = golden_set.samples
    return [*configured_samples(settings, besides=file), *own]


def add_drafts(
    file: Path,
    samples: Sequence[Sample],
    window: Window,
    scores: RunScores,
    policy: Policy,
    redact: Callable[[str], str],
) -> Counter[str]:
    """Add the bad answers of `window` to `file`, unless they repeat one of `samples`:
    what is in it stays as it is.

    Returns what became of how many. There is no reference: the answer was bad, so the
    right one is for the reviewer to write.
    """
    ids = {sample.id for sample in samples}
    of_window = [
        _draft(interaction, reasons, window.period.name, redact)
        for interaction, reasons in bad_answers(window, scores, policy)
    ]
    drafts = [draft for draft in of_window if draft.id not in ids]
    valid = [draft for draft in drafts if invalid_sample(draft) is None]
    questions = [draft.question for draft in valid]
    earlier = [sample.question for sample in samples]
    repeated = repeats(questions, earlier)
    new = [draft for place, draft in enumerate(valid) if place not in repeated]
    if new:
        _append(file, new)
    left_out = len(drafts) - len(new)
    added = f"drafts added to {file}"
    return Counter({added: len(new), LEFT_OUT: left_out})


def _draft(
    interaction: Interaction,
    reasons: Sequence[str],
    period: str,
    redact: Callable[[str], str],
) -> Sample:
    history = [
        replace(turn, text=strip(redact(turn.text))) for turn in interaction.history
    ]
    question = redact(interaction.question or "")
    return Sample(
        id=f"production-{interaction.key[:12]}",
        question=strip(question),
        history=tuple(history),
        tags=("production", *reasons),
        review=Review("draft"),
        provenance=f"ragstone monitor {__version__}, window {period}, interaction {interaction.key}",
    )


def bad_answers(
    window: Window, scores: RunScores, policy: Policy
) -> Iterator[tuple[Interaction, Sequence[str]]]:
    """The interactions that users found bad, or of which a score is below the floor of
    its metric, with the reasons.

    Of each reason at most MAX_DRAFTS: the newest feedback, and the lowest scores.
    """
    with_question = {
        key: interaction
        for key, interaction in window.interactions.items()
        if interaction.question
    }
    rated = [
        key
        for key, interaction in with_question.items()
        if is_bad(interaction, policy.monitor)
    ]
    rated.sort(key=lambda key: with_question[key].timestamp, reverse=True)
    chosen = {"bad feedback": rated}
    for name, rule in policy.in_force.items():
        if rule.min is None:
            continue
        values = scores.scores_of(name).values
        scored = values.keys() & with_question
        low = [key for key in scored if values[key] < rule.min]
        low.sort(key=lambda key: (values[key], key))
        chosen[f"low {name}"] = low
    reasons: dict[str, list[str]] = {}
    for reason, keys in chosen.items():
        for key in keys[:MAX_DRAFTS]:
            reasons.setdefault(key, []).append(reason)
    return ((with_question[key], why) for key, why in reasons.items())


def _append(file: Path, drafts: Sequence[Sample]) -> None:
    """Add drafts to the end of `file`, in one step; what is in it stays as it is, byte
    for byte."""
    with disk_errors(file, "can't be written"):
        before = ""
        if file.exists():
            before = read_regular(file, limit=MAX_FILE_BYTES).decode("utf-8")
        file.parent.mkdir(parents=True, exist_ok=True)
    if before and not before.endswith("\n"):
        before += "\n"
    lines = [f"{line}\n" for line in native_lines(drafts)]
    added = "".join(lines)
    replace_text(file, before + added)
