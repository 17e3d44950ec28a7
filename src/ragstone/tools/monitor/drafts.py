"""Bad and unusual production cases as drafts of golden samples, without personal data that a rule finds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from ragstone._version import __version__
from ragstone.errors import ConfigError, disk_errors
from ragstone.evaluation.files import replace_text
from ragstone.files import read_regular
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import MAX_FILE_BYTES
from ragstone.golden.sample import Review, Sample
from ragstone.settings.settings import Settings
from ragstone.tools.generate.drafts.rules import configured_samples, invalid_sample
from ragstone.tools.generate.near_duplicates import likeness, repeats, words_of
from ragstone.tools.monitor.alerts_file import AlertsTable
from ragstone.tools.monitor.figures import KINDS, kind_of
from ragstone.tools.monitor.interaction import BadRecord, Interaction, Reader
from ragstone.tools.monitor.logs import Line
from ragstone.tools.monitor.outcome import Drafts
from ragstone.tools.monitor.personal import SECRET, field_values, replacements, strip
from ragstone.tools.monitor.state import State

UNUSUAL = "unusual"
_CONDITIONS: Mapping[str, str] = {
    "error": KINDS["error_rate"].hits,
    "bad feedback": KINDS["bad_feedback_rate"].hits,
    "no sources": KINDS["no_source_rate"].hits,
    "abstained with sources": "abstained AND sourced",
}
"""Reasons that are logged, and how the state knows them."""

_FAR = 0.2
_POOL = 500
_SPARE = 5
_MAX_KEPT = 500
_MIN_WORDS = 3
_MAX_CHARACTERS = 4_000


def check_drafts_file(file: Path, table: AlertsTable, settings: Settings, where: str) -> None:
    """Raise ConfigError or GoldenSetError if no drafts can be added to `file`, or if the rules keep all texts out."""
    if not table.privacy.texts:
        raise ConfigError(
            "'privacy.texts' is false, which keeps all texts out of outputs: drafts contain questions.",
            where=where,
            hint="Leave out --drafts, or set texts = true under [privacy].",
        )
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        raise ConfigError("drafts are written as JSON Lines.", where=str(file), hint="Name a file that ends in .jsonl.")
    if settings.golden.columns and any(
        settings.path(path).resolve() == file.resolve() for path in settings.golden.paths
    ):
        raise ConfigError(
            "has its own column mapping, so no drafts can be added to it.",
            where=str(file),
            hint="Name another file.",
        )
    _kept(file)
    configured_samples(settings, besides=file)


def _kept(file: Path) -> Sequence[Sample]:
    return load_golden_set([str(file.absolute())]).samples if file.exists() and file.stat().st_size else ()


def worst_scores(metric: str, values: Mapping[str, float]) -> list[str]:
    """The keys of the worst tenth of the answers, at most 500, that are worse than the mean: the worst first."""
    sign = -1.0 if kind_of(metric).rising else 1.0
    mean = sum(values.values()) / len(values)
    below = [key for key, value in values.items() if sign * value < sign * mean]
    return sorted(below, key=lambda key: (sign * values[key], key))[: min(_MAX_KEPT, math.ceil(len(values) / 10))]


@dataclass(slots=True)
class _Case:
    """A case that may become a draft: its texts without personal data, and what was replaced."""

    sample: Sample
    replaced: Counter[str]


@dataclass(slots=True)
class _Window:
    """The keys of a window in the order of their turn by reason, and those among which unusual ones are looked for."""

    name: str
    bad: Mapping[str, Sequence[bytes]]
    pool: Sequence[bytes]
    reasons: dict[bytes, list[str]] = field(default_factory=dict)


def add_drafts(
    file: Path,
    decided: Sequence[str],
    *,
    state: State,
    table: AlertsTable,
    settings: Settings,
    redact: Callable[[str], str],
    reader: Reader,
    lines: Callable[[], Iterator[Line]],
) -> Drafts:
    """Add the cases of the windows that were not drafted yet to `file`: what is there stays as it is.

    The first time, the windows are those `decided` by this job, or else the newest one. Texts are read again from the
    logs, `lines`: the state holds none. Raises GoldenSetError if `file` or the golden set can't be read.
    """
    kept = _kept(file)
    golden = configured_samples(settings, besides=file)
    windows = [_cases(state, name, table.drafts.size) for name in _pending(state, decided)]
    texts, with_values, left_out = _texts(windows, reader, lines, table.privacy.fields, redact)
    _find_unusual(windows, texts, [sample.question for sample in golden])
    chosen: list[tuple[_Case, Sequence[str]]] = []
    known = [sample.question for sample in (*golden, *kept)]
    ids = {sample.id for sample in (*golden, *kept)}
    for window in windows:
        chosen += _chosen(window, texts, known, ids, table.drafts.size, left_out)
    drafts = [_draft(case, reasons) for case, reasons in chosen]
    if drafts:
        _append(file, drafts)
    if windows:
        state.write_note("drafted", windows[-1].name)
    replaced = sum((case.replaced for case, _ in chosen), Counter[str]())
    return Drafts(
        str(file),
        tuple(window.name for window in windows),
        len(drafts),
        dict(Counter(reason for _, reasons in chosen for reason in reasons).most_common()),
        dict(sorted(replaced.items())),
        {why: count for why, count in left_out.items() if count},
        tuple(path for path in table.privacy.fields if drafts and path not in with_values),
    )


def _pending(state: State, decided: Sequence[str]) -> list[str]:
    names = state.decided_names()
    if last := state.note("drafted"):
        return [name for name in names if name > last]
    return sorted(decided) or names[-1:]


def _cases(state: State, window: str, size: int) -> _Window:
    bad: dict[str, Sequence[bytes]] = {}
    for metric, keys in state.decided()[window].get("worst", {}).items():
        bad[_low(metric)] = [bytes.fromhex(key) for key in keys[: size * _SPARE]]
    for reason, condition in _CONDITIONS.items():
        bad[reason] = state.cases(window, condition, size * _SPARE)
    found = _Window(window, bad, state.cases(window, "1", _POOL))
    for key in {key: None for keys in (*bad.values(), found.pool) for key in keys}:
        scored = [reason for reason, keys in bad.items() if reason not in _CONDITIONS and key in keys]
        found.reasons[key] = scored + [name for name, condition in _CONDITIONS.items() if state.meets(key, condition)]
    return found


def _low(metric: str) -> str:
    return f"{'high' if kind_of(metric).rising else 'low'} {metric}"


def _texts(
    windows: Sequence[_Window],
    reader: Reader,
    lines: Callable[[], Iterator[Line]],
    fields: Sequence[str],
    redact: Callable[[str], str],
) -> tuple[dict[bytes, _Case], set[str], Counter[str]]:
    """The cases of `windows` in the logs, the `fields` that had a value, and how many cases are left out, by reason."""
    wanted = {key: window.name for window in windows for key in window.reasons}
    found: dict[bytes, _Case] = {}
    with_values: set[str] = set()
    left_out = Counter[str]()
    missing = {key for window in windows for keys in window.bad.values() for key in keys}
    for line in lines() if wanted else ():
        if line.record is None:
            continue
        try:
            one = reader.read(line.record)
        except BadRecord:
            continue
        if one.key not in wanted or one.key in found:
            continue
        values = field_values(line.record, fields)
        with_values |= {path for path, texts in values.items() if texts}
        missing.discard(one.key)
        if not one.query:
            left_out["without a question"] += 1
        elif len(one.query) > _MAX_CHARACTERS or sum(len(turn.text) for turn in one.history) > 10 * _MAX_CHARACTERS:
            left_out["too long"] += 1
        else:
            case = _stripped(one, values, wanted[one.key], reader, redact)
            if invalid_sample(case.sample) is None:
                found[one.key] = case
            else:
                left_out["no valid sample"] += 1
    left_out["no longer in the logs"] = len(missing)
    return found, with_values, left_out


def _stripped(
    one: Interaction,
    values: Mapping[str, Iterable[str]],
    window: str,
    reader: Reader,
    redact: Callable[[str], str],
) -> _Case:
    replaced = Counter[str]()

    def clean(text: str) -> str:
        public = redact(text)
        replaced[SECRET] += public != text
        done = strip(public, values)
        replaced.update(done.counts)
        return done.text

    question = clean(one.query)
    history = tuple(replace(turn, text=clean(turn.text)) for turn in one.history)
    name = reader.hashed(one.key.hex()).hex()
    found = +replaced
    said = (
        "; replaced: " + ", ".join(replacements(kind, count) for kind, count in sorted(found.items())) if found else ""
    )
    sample = Sample(
        id=f"production-{name[:12]}",
        question=question,
        history=history,
        review=Review("draft"),
        provenance=f"ragstone monitor {__version__}, window {window}, interaction {name}{said}",
    )
    return _Case(sample, found)


def _find_unusual(windows: Sequence[_Window], texts: Mapping[bytes, _Case], golden: Sequence[str]) -> None:
    """Give the cases that are far from every golden question this reason, the farthest first."""
    for window in windows if golden else ():
        keys = [key for key in window.pool if key in texts and _is_question(texts[key].sample.question)]
        near = dict(zip(keys, likeness([texts[key].sample.question for key in keys], golden), strict=True))
        far = sorted((key for key in keys if near[key] < _FAR), key=lambda key: (near[key], key))
        window.bad = {**window.bad, UNUSUAL: far}
        for key in far:
            window.reasons[key].append(UNUSUAL)


def _is_question(text: str) -> bool:
    return sum(any(sign.isalpha() for sign in word) for word in words_of(text).split()) >= _MIN_WORDS


def _chosen(
    window: _Window,
    texts: Mapping[bytes, _Case],
    known: list[str],
    ids: set[str],
    size: int,
    left_out: Counter[str],
) -> Iterator[tuple[_Case, Sequence[str]]]:
    """At most `size` cases of a window: the first of each reason, then the second, and so on. They are `known` then."""
    turns = (key for row in zip_longest(*window.bad.values()) for key in row if key is not None)
    candidates = [key for key in dict.fromkeys(turns) if key in texts and texts[key].sample.id not in ids]
    repeated = repeats([texts[key].sample.question for key in candidates], known)
    for at, key in enumerate(candidates):
        if at in repeated:
            left_out["nearly the same as a sample or another draft"] += 1
            continue
        ids.add(texts[key].sample.id)
        known.append(texts[key].sample.question)
        yield texts[key], window.reasons[key]
        size -= 1
        if size == 0:
            break


def _draft(case: _Case, reasons: Sequence[str]) -> Sample:
    return replace(case.sample, tags=("production", *reasons, *(["personal data replaced"] if case.replaced else [])))


def _append(file: Path, drafts: Sequence[Sample]) -> None:
    """Add drafts to the end of `file`, in one step; what is there stays as it is, byte for byte."""
    before = ""
    with disk_errors(file, "can't be written"):
        if file.exists():
            before = read_regular(file, limit=MAX_FILE_BYTES).decode("utf-8")
        file.parent.mkdir(parents=True, exist_ok=True)
    if before and not before.endswith("\n"):
        before += "\n"
    replace_text(file, before + "".join(f"{line}\n" for line in native_lines(drafts)))
