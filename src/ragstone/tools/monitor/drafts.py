"""Adds the questions of answers with bad feedback or low scores to a file, as drafts of
golden samples, without the personal data that rules find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragstone._version import __version__
from ragstone.errors import ConfigError, disk_errors
from ragstone.evaluation.run_files import replace_text
from ragstone.evaluation.scores import RunScores
from ragstone.files import read_regular
from ragstone.gate.policy import Policy
from ragstone.golden.load import load_golden_set
from ragstone.golden.native_format import native_lines
from ragstone.golden.rows import MAX_FILE_BYTES
from ragstone.golden.sample import Review, Sample
from ragstone.settings.settings import Settings
from ragstone.tools.generate.checks import configured_samples, why_invalid
from ragstone.tools.generate.near_duplicates import find_repeats
from ragstone.tools.monitor.interactions import Interaction
from ragstone.tools.monitor.personal import mask_personal_data
from ragstone.tools.monitor.window import Window, is_bad

MAX_DRAFTS = 10
"""So many answers of a window become drafts for each reason, at most."""

LEFT_OUT = "bad answers left out, nearly the same as a sample or another draft, or no valid sample"


def read_samples(file: Path, settings: Settings) -> Sequence[Sample]:
    """Read the samples of the golden set and of `file`, which drafts must not repeat.

    Raises ConfigError or GoldenSetError if they can't be read, or if drafts can't be
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
        raise ConfigError(
            "is read with [golden] columns, so no drafts can be added to it.",
            where=str(file),
            hint="Name another file, and add it to [golden] paths.",
        )
    samples_in_file: Sequence[Sample] = ()
    if file.exists() and file.stat().st_size:
        golden_set = load_golden_set([str(file.absolute())])
        samples_in_file = golden_set.samples
    return [*configured_samples(settings, without=file), *samples_in_file]


def add_drafts(
    file: Path,
    samples: Sequence[Sample],
    window: Window,
    scores: RunScores,
    policy: Policy,
    redact: Callable[[str], str],
) -> Counter[str]:
    """Add the questions of bad answers in `window` to `file`, unless they repeat one of
    `samples`. What is in the file stays as it is.

    The drafts have no reference: the reviewer writes it, since the answer was bad.
    Returns how many drafts were added and left out, each by a text for the report.
    """
    earlier_ids = {sample.id for sample in samples}
    drafts_of_window = [
        _draft(interaction, reasons, window.period.name, redact)
        for interaction, reasons in bad_answers(window, scores, policy)
    ]
    drafts = [draft for draft in drafts_of_window if draft.id not in earlier_ids]
    valid = [draft for draft in drafts if why_invalid(draft) is None]
    questions = [draft.question for draft in valid]
    earlier_questions = [sample.question for sample in samples]
    repeated = find_repeats(questions, earlier_questions)
    new = [draft for index, draft in enumerate(valid) if index not in repeated]
    if new:
        _append(file, new)
    return Counter(
        {f"drafts added to {file}": len(new), LEFT_OUT: len(drafts) - len(new)}
    )


def _draft(
    interaction: Interaction,
    reasons: Sequence[str],
    period: str,
    redact: Callable[[str], str],
) -> Sample:
    """The draft of a golden sample with the question of a bad answer, and with why it is
    bad as tags."""
    history = [
        replace(turn, text=mask_personal_data(redact(turn.text)))
        for turn in interaction.history
    ]
    question = redact(interaction.question or "")
    return Sample(
        id=f"production-{interaction.key[:12]}",
        question=mask_personal_data(question),
        history=tuple(history),
        tags=("production", *reasons),
        review=Review("draft"),
        provenance=f"ragstone monitor {__version__}, window {period}, interaction {interaction.key}",
    )


def bad_answers(
    window: Window, scores: RunScores, policy: Policy
) -> Iterator[tuple[Interaction, Sequence[str]]]:
    """The interactions whose answer a user called bad, or has a score below the floor
    of its metric, each with these reasons.

    For each reason at most MAX_DRAFTS: those with the newest feedback, and those with
    the lowest scores.
    """
    with_question = {
        key: interaction
        for key, interaction in window.interactions.items()
        if interaction.question
    }
    keys_by_reason = {}
    rated_bad = [
        key
        for key, interaction in with_question.items()
        if is_bad(interaction, policy.monitor)
    ]
    rated_bad.sort(key=lambda key: with_question[key].timestamp, reverse=True)
    keys_by_reason["bad feedback"] = rated_bad
    for name, rule in policy.rules_in_force.items():
        if rule.min is None:
            continue
        values = scores.scores_of(name).values
        scored = values.keys() & with_question
        below_floor = [key for key in scored if values[key] < rule.min]
        below_floor.sort(key=lambda key: (values[key], key))
        keys_by_reason[f"low {name}"] = below_floor
    reasons_by_key: dict[str, list[str]] = {}
    for reason, keys in keys_by_reason.items():
        for key in keys[:MAX_DRAFTS]:
            reasons_by_key.setdefault(key, []).append(reason)
    for key, reasons in reasons_by_key.items():
        yield with_question[key], reasons


def _append(file: Path, drafts: Sequence[Sample]) -> None:
    """Add drafts to the end of `file` in one step, so that it is never half written.
    What is in it stays as it is, byte for byte."""
    with disk_errors(file, "can't be written"):
        content = ""
        if file.exists():
            content = read_regular(file, limit=MAX_FILE_BYTES).decode("utf-8")
        file.parent.mkdir(parents=True, exist_ok=True)
    if content and not content.endswith("\n"):
        content += "\n"
    for line in native_lines(drafts):
        content += f"{line}\n"
    replace_text(file, content)
