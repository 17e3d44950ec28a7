"""The history as a page: trends of all metrics and slices, and any versions side by side. Self-contained HTML.

The page carries the runs in columns, packed as those of a report (`page.py`): what all charts need in one part, the
means of each metric and slice in parts of their own, the paired differences of some pairs of runs (`pairs.py`), and the
scores of single samples in parts of some runs each. A part is unpacked when a chart or a comparison needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstone.formatting import counted
from ragstone.gate.comparability import is_judged
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.history.codes import sample_codes
from ragstone.history.file import History
from ragstone.history.lines import RunLine
from ragstone.history.trend import marks
from ragstone.printable import clean
from ragstone.report.escape import clip, url
from ragstone.report.html_page import Verbatim, render_page
from ragstone.report.page import packed
from ragstone.report.templates import read_template
from ragstone.report.wording import metric_title
from ragstone.run.scores import MetricScores, RunScores, SampleFacts
from ragstone.tools.history_page.pairs import SCALE, differences
from ragstone.tools.history_page.production import MonitorReport, figures_of

MAX_PACKED = 32 * 1024 * 1024
"""Characters of packed scores of single samples in a page. The oldest runs have none beyond that."""

MAX_METRICS = 100
MAX_SLICES = 1000
"""Charts in a page: of metrics, and of slices of all metrics. What the newest runs have comes first."""

GENERATOR = '<meta name="generator" content="ragstone history report">'
"""In every page, so that a page of another program is not overwritten."""

_PACKAGE = "ragstone.tools.history_page"
_CHUNK = 256 * 1024
_QUESTION = 300

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SampleName:
    """A sample of the golden set, to show for the code that the history has."""

    id: str
    question: str


@dataclass(slots=True)
class HistoryPage:
    """What the page carries: `head` for all charts, and packed `parts`, to which it refers by number.

    `notes` are sentences on what it does not show.
    """

    head: dict[str, Any]
    parts: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def add(self, value: object) -> int:
        self.parts.append(packed(value))
        return len(self.parts) - 1


def history_page(
    history: History,
    policy: Policy,
    *,
    names: Mapping[str, SampleName] | None = None,
    production: MonitorReport | None = None,
    repository: str | None = None,
    redact: Redact = str,
) -> HistoryPage:
    """The data of the page. `names` has samples by their code, if a golden set is at hand.

    `production` is what a monitor found. `repository` is an address on GitHub, for links to commits, pull requests and
    workflow runs.

    Thresholds are those of `policy`: the history doesn't have the ones that were in force then.
    """
    runs, page = history.runs, HistoryPage({})
    texts = _Texts(redact)
    known = list(dict.fromkeys(name for run in reversed(runs) for name in run.metrics))
    metrics = known[:MAX_METRICS]
    sliced = _sliced(runs, frozenset(metrics))
    slices = {name: [tag for tag, one in sliced[:MAX_SLICES] if one == name] for name in metrics}
    page.notes = (*_left_out("metric", len(known), MAX_METRICS), *_left_out("slice", len(sliced), MAX_SLICES))
    limits = _thresholds(policy, metrics, sorted({tag for tags in slices.values() for tag in tags}))
    places, elsewhere = {name: place for place, name in enumerate(metrics)}, frozenset(known[MAX_METRICS:])
    page.head = {
        "runs": _facts(runs, metrics, texts),
        "metrics": [
            {
                "name": texts.shown(name),
                "title": texts.shown(metric_title(name)),
                "lower": policy.lower_is_better(name),
                "judged": [
                    texts.number("versions", version)
                    for version in sorted({run.versions[name] for run in runs if name in run.versions})
                    if is_judged(name, version)
                ],
                "all": {"part": page.add(_series(runs, name, None)), **limits.get((name, None), {})},
                "slices": [
                    {"tag": texts.shown(tag), "part": page.add(_series(runs, name, tag))} | limits.get((name, tag), {})
                    for tag in sorted(slices[name])
                ],
            }
            for name in metrics
        ],
        "marks": [
            texts.shown([mark.place, mark.kind, mark.text, places.get(mark.metric or ""), mark.slice])
            for mark in marks(runs)
            if mark.metric not in elsewhere
        ],
    }
    page.head["pairs"] = page.add(differences(history, metrics))
    page.head["scores"] = _scores(page, history, metrics)
    if names:
        scored = {code for line in history.samples.values() for code in sample_codes(line)}
        shown = {code: names[code] for code in names if code in scored}
        page.head["names"] = page.add(
            {code: texts.shown([one.id, clip(one.question, _QUESTION)]) for code, one in shown.items()}
        )
    address = url(repository)
    if address is not None:
        page.head["repository"] = texts.shown(address.rstrip("/"))
    if production is not None and production.windows:
        page.head["production"] = {
            "length": production.length,
            "timezone": texts.shown(production.timezone),
            "windows": [one.window for one in production.windows],
            "figures": [
                texts.shown({name: one[name] for name in ("title", "form", "rising", "marks", "over")})
                | {
                    "part": page.add(
                        texts.shown({name: one[name] for name in ("value", "low", "high", "n", "versions")})
                    )
                }
                for one in figures_of(production)
            ],
        }
    page.head["tables"] = texts.tables
    return page


def render_history(page: HistoryPage, *, notes: Sequence[str] = (), title: str = "RAG quality history") -> str:
    """The page as HTML: no network, styles and script inline, and nothing else allowed by its security policy."""
    count = len(page.head["runs"]["time"])
    return render_page(
        "history.html.j2",
        package=_PACKAGE,
        styles=(read_template("report.css"), read_template("history.css", _PACKAGE)),
        script=read_template("history.js", _PACKAGE),
        title=title,
        generator=Verbatim(GENERATOR),
        notes=list(notes),
        count=counted(count, "run"),
        empty=count == 0,
        windows=len(page.head.get("production", {}).get("windows", ())),
        head=Verbatim(packed(page.head)),
        parts=[Verbatim(part) for part in page.parts],
    )


class _Texts:
    """Foreign texts as the page shows them, and tables of those that many runs share, by number."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._numbers: dict[str, dict[str, int]] = {}
        self.tables: dict[str, list[str]] = {}

    def shown(self, value: Any) -> Any:
        """`value` with all texts in it as they are shown; keys of a mapping are ours."""
        if isinstance(value, str):
            return clean(self._redact(value))
        if isinstance(value, dict):
            return {key: self.shown(one) for key, one in value.items()}
        return [self.shown(one) for one in value] if isinstance(value, list | tuple) else value

    def number(self, table: str, text: str | None, shown: str | None = None) -> int:
        """The place of `text` in `table`; -1 for None. Texts that differ have different places, whatever is shown."""
        if text is None:
            return -1
        numbers, texts = self._numbers.setdefault(table, {}), self.tables.setdefault(table, [])
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(self.shown(text if shown is None else shown))
        return numbers[text]


def _sliced(runs: Sequence[RunLine], metrics: frozenset[str]) -> list[tuple[str, str]]:
    """Each slice and metric that a run has a mean of, the newest run's first."""
    means = ((tag, name) for run in reversed(runs) for tag, found in run.slices.items() for name in found)
    return list(dict.fromkeys(one for one in means if one[1] in metrics))


def _left_out(noun: str, found: int, most: int) -> Iterator[str]:
    if found > most:
        yield f"The page shows {most:,} of {counted(found, noun)}, those of the newest runs first."


def _facts(runs: Sequence[RunLine], metrics: Sequence[str], texts: _Texts) -> dict[str, list[Any]]:
    """What is known of each run beside its means, in columns."""
    shared = ("event", "commit", "release", "golden", "system", "part")
    for table in (*shared, "judge", "versions"):
        texts.tables.setdefault(table, [])
    plain = {"verdict": "verdict", "pull": "pull_request", "coverage": "coverage", "calls": "calls", "cost": "cost_usd"}
    plain |= {"p50": "latency_p50_s", "p95": "latency_p95_s"}
    return {
        "id": [f"{run.run}{'' if run.github_run is None else f'-{run.github_run}'}" for run in runs],
        "time": [round(run.time.timestamp()) for run in runs],
        "eligible": [int(run.eligible) for run in runs],
        "judge": [texts.number("judge", run.judge_key, run.judge) for run in runs],
        "versions": [[texts.number("versions", run.versions.get(name)) for name in metrics] for run in runs],
        **{name: [texts.number(name, getattr(run, name)) for run in runs] for name in shared},
        **{key: [getattr(run, name) for run in runs] for key, name in plain.items()},
    }


def _series(runs: Sequence[RunLine], metric: str, tag: str | None) -> dict[str, list[int | None]]:
    """Mean, limits and number of samples of `metric` in each run, in columns; None for a run without."""
    found = [(run.metrics if tag is None else run.slices.get(tag, {})).get(metric) for run in runs]
    scales = {"mean": SCALE, "low": SCALE, "high": SCALE, "n": 1}
    return {
        name: [None if one is None else round(getattr(one, name) * scale) for one in found]
        for name, scale in scales.items()
    }


def _scores(page: HistoryPage, history: History, metrics: Sequence[str]) -> dict[str, Any]:
    """Where the scores of single samples are: for each run its set of samples, its part, and its place there.

    The newest runs come first, so that the oldest are left out if there are too many.
    """
    where: list[list[int] | None] = [None] * len(history.runs)
    sets: dict[str, int] = {}
    scored = [at for at, run in enumerate(history.runs) if run.samples is not None and run.scores]
    total = 0
    while scored and total <= MAX_PACKED:
        chunk: list[dict[int, str]] = []
        number, size = len(page.parts), 0
        while scored and size < _CHUNK:
            index = scored.pop()
            run = history.runs[index]
            where[index] = [sets.setdefault(run.samples or "", len(sets)), number, len(chunk)]
            chunk.append({at: run.scores[name] for at, name in enumerate(metrics) if name in run.scores})
            size += sum(map(len, chunk[-1].values()))
        total += len(page.parts[page.add(chunk)])
    named = [history.samples[key] for key in sets]
    return {"runs": where, "sets": [page.add({"ids": line.ids}) for line in named]}


def _thresholds(
    policy: Policy, metrics: Sequence[str], slices: Sequence[str]
) -> dict[tuple[str, str | None], dict[str, float]]:
    """The limits of each metric and slice, as the rules for a run with these metrics and tags have them."""
    names = {tag: SampleFacts(tags=(tag,)) for tag in slices} or {"": SampleFacts()}
    outline = RunScores("", dict.fromkeys(metrics, MetricScores(dict.fromkeys(names, 0.0))), names)
    found: dict[tuple[str, str | None], dict[str, float]] = {}
    for rule in resolve_rules(policy, outline).rules:
        limits = {} if rule.min is None else {"limit": rule.direction.shown(rule.min)}
        found[rule.metric, rule.slice] = limits | ({} if rule.max_drop is None else {"drop": rule.max_drop})
    return found
