"""Scores a random sample of a window: the answers that were drawn go to the judge as they are in the state."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragstone.app.rescore import rescore
from ragstone.config.settings import Settings
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.project.plan import run_plan
from ragstone.rounds.context import RunContext
from ragstone.run.engine import Progress
from ragstone.run.stored import StoredAnswers
from ragstone.system import payload, worker
from ragstone.system.response import Response
from ragstone.tools.monitor.alerts_file import AlertsTable
from ragstone.tools.monitor.drafts import worst_scores
from ragstone.tools.monitor.figures import figures_of, weighted
from ragstone.tools.monitor.interaction import Interaction
from ragstone.tools.monitor.state import State

_MAX_PAYLOAD = 2_000_000


def payload_of(one: Interaction) -> str | None:
    """What a judge needs, as JSON for the state; None if it lacks an answer, or the texts of its sources."""
    if not (one.answer and one.query) or one.sources is None:
        return None
    contexts = []
    for source in one.sources:
        document: Mapping[str, Any] = source if isinstance(source, Mapping) else {"text": source}
        text = next((str(document[name]) for name in worker.TEXT_NAMES if isinstance(document.get(name), str)), "")
        if not any(sign.isspace() for sign in text.strip()):
            return None  # an address or an id
        identity = next((str(document[name]) for name in worker.ID_NAMES if document.get(name) is not None), None)
        contexts.append({"text": text} if identity is None else {"text": text, "id": identity})
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


class OneProgress:
    """The progress of all windows of a job as that of one run, on `progress`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started = False

    def start(self, total: int | None) -> None:  # noqa: ARG002 - of one window
        if not self._started:
            self._progress.start(None)
        self._started = True

    def advance(self, state: str) -> None:
        self._progress.advance(state)

    def finish(self) -> None: ...

    def close(self) -> None:
        if self._started:
            self._progress.finish()


async def summarise(
    state: State, window: str, table: AlertsTable, settings: Settings, context: RunContext, out: Path
) -> tuple[dict[str, Any], Path | None]:
    """The figures of `window`, those of a scored sample among them, and the run in `out` that has its scores.

    There is no run if nothing was scored, or if texts are private. Raises what a run raises.
    """
    figures = figures_of(state, window, slow_s=table.windows.slow_s)
    summary: dict[str, Any] = {}
    place = None
    drawn = state.drawn(window, table.sample.size) if table.sample.size else []
    if drawn:
        with ExitStack() as private:
            if table.privacy.texts:
                place = out / window
            folder = place or Path(private.enter_context(tempfile.TemporaryDirectory(prefix="ragstone-"))) / window
            run = settings.run.model_copy(update={"out": str(folder), "answers": 1})
            stored = StoredAnswers.given(f"interactions of {window}", (answer_of(one.payload) for one in drawn))
            asked = settings.model_copy(update={"run": run})
            plan = run_plan(asked, context, golden=GoldenSet(()), command=None)
            found = (await rescore(stored, plan, context, missing=True)).run
            assert found is not None  # noqa: S101 - it was no dry run
            scores, manifest = found.scores(), found.manifest
        chances = {one.key: one.probability for one in drawn}
        worst = {}
        for name, one in scores.metrics.items():
            if one.values:
                figures[name] = weighted(list(one.values.values()), [chances[key] for key in one.values])
                worst[name] = worst_scores(name, one.values)
        measured = [asdict(manifest.judge), manifest.metrics, manifest.repeats]
        digest = hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:12]
        summary |= {"judge": f"{manifest.judge.label()} {digest}", "scored": len(drawn), "worst": worst}
    return summary | {"figures": {name: asdict(figure) for name, figure in figures.items()}}, place
