"""Scores a random sample of a window: the answers that were drawn go to the judge as they are in the state."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragstone.evaluation.engine import Progress, Quiet
from ragstone.evaluation.rescore import rescore
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.stored import StoredAnswers
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.pipeline.run_plan import run_plan
from ragstone.settings.settings import Settings
from ragstone.system import payload
from ragstone.system.response import Response
from ragstone.tools.monitor.alerts_file import AlertsTable
from ragstone.tools.monitor.drafts import worst_scores
from ragstone.tools.monitor.figures import Figure, Window, figures_of, weighted
from ragstone.tools.monitor.interaction import Interaction
from ragstone.tools.monitor.state import State

_MAX_PAYLOAD = 2_000_000


def payload_of(one: Interaction) -> str | None:
    """What a judge needs, as JSON for the state; None if it lacks an answer, or the texts of its sources."""
    if not (one.answer and one.query) or one.sources is None:
        return None
    read = payload.read("", {"answer": one.answer, "contexts": list(one.sources)}, None)
    if read.failure is not None or not all(any(map(str.isspace, found.text.strip())) for found in read.contexts):
        return None  # an address or an id is no text
    contexts = [
        {"text": found.text} if found.id is None else {"text": found.text, "id": found.id} for found in read.contexts
    ]
    found: dict[str, Any] = {"id": one.key.hex(), "question": one.query, "answer": one.answer, "contexts": contexts}
    if one.latency_s is not None:
        found["latency_s"] = one.latency_s
    if one.session is not None:
        found["group"] = one.session.hex()
    if one.route:
        found["tags"] = [one.route]
    text = json.dumps(found)
    return text if len(text) <= _MAX_PAYLOAD else None


def answer_of(text: str) -> tuple[Sample, Response]:
    """The question and its answer in what `payload_of` wrote."""
    found = json.loads(text)
    sample = Sample(found["id"], found["question"], group=found.get("group"), tags=tuple(found.get("tags", ())))
    return sample, payload.read(sample.id, found, found.get("latency_s"))


class OneProgress(Quiet):
    """The progress of all windows of a job as that of one run, on `progress`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started = False

    def advance(self, state: str) -> None:
        if not self._started:
            self._progress.start(None)
        self._started = True
        self._progress.advance(state)

    def close(self) -> None:
        if self._started:
            self._progress.finish()


async def summarise(
    state: State, window: str, table: AlertsTable, settings: Settings, context: RunContext, out: Path
) -> tuple[Window, dict[str, list[str]], list[Path]]:
    """`window` with the figures of each version in it, those of a scored sample among them; the keys of the worst
    answers by metric; and the runs in `out`.

    There is a run for each version, and none if nothing was scored, or if texts are private. Raises what a run raises.
    """
    slow_s, names = table.windows.slow_s, state.versions(window)
    figures = figures_of(state, window, slow_s=slow_s)
    of_version = {name: figures_of(state, window, slow_s=slow_s, version=name) for name in names}
    drawn = state.drawn(window, table.sample.size) if table.sample.size else []
    if not drawn:
        return Window(window, figures, versions=of_version), {}, []
    chances = {one.key: one.probability for one in drawn}
    values: dict[str, dict[str, float]] = {}
    places: list[Path] = []
    with ExitStack() as private:
        root = out if table.privacy.texts else Path(private.enter_context(TemporaryDirectory(prefix="ragstone-")))
        for name in names or [""]:
            part = [one for one in drawn if one.version == name]
            if not part:
                continue
            places.append(root / (window if len(names) < 2 else f"{window}-{_slug(name)}"))
            run = settings.run.model_copy(update={"out": str(places[-1]), "answers": 1})
            stored = StoredAnswers.given(f"interactions of {window}", (answer_of(one.payload) for one in part))
            system = settings.system.model_copy(update={"version": name or settings.system.version})
            asked = settings.model_copy(update={"run": run, "system": system})
            plan = run_plan(asked, context, golden=GoldenSet(()), command=None)
            found = (await rescore(stored, plan, context, missing=True)).run
            assert found is not None  # noqa: S101 - it was no dry run
            manifest = found.manifest
            for metric, one in found.scores().metrics.items():
                if one.values:
                    values.setdefault(metric, {}).update(one.values)
                    of_version.setdefault(name, {})[metric] = _mean(one.values, chances)
    figures |= {metric: _mean(scores, chances) for metric, scores in values.items()}
    measured = [asdict(manifest.judge), manifest.metrics, manifest.repeats]
    digest = hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:12]
    of_version = {name: of_version[name] for name in names}
    found_window = Window(window, figures, f"{manifest.judge.label()} {digest}", len(drawn), of_version)
    worst = {metric: worst_scores(metric, scores) for metric, scores in values.items()}
    return found_window, worst, places if table.privacy.texts else []


def _slug(version: str) -> str:
    """`version`, or where a folder can't be named so, its hash."""
    return version if re.fullmatch(r"[\w.-]{1,60}", version) else hashlib.sha256(version.encode()).hexdigest()[:12]


def _mean(scores: Mapping[str, float], chances: Mapping[str, float]) -> Figure:
    return weighted(list(scores.values()), [chances[key] for key in scores])
