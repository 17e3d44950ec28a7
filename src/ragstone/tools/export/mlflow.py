"""A finished run as a run of MLflow. Needs the extra `mlflow`: the client of a tracking server.

Server and credentials come from the environment (MLFLOW_*), as the client reads them. The run is found again by its
fingerprint, a tag, so that a second export brings the same run of MLflow up to date.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import posixpath
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.tracker import Exported, State, captured_log, digest, refusing, shown_address, write_files

URI = "MLFLOW_TRACKING_URI"
EXPERIMENT = "ragstone"
SAMPLES = "samples.json"
MISSING = "left_out.json"
FINGERPRINT_TAG = "ragstone.run.fingerprint"
DIGEST_TAG = "ragstone.export"
"""What was exported; set when all of it has arrived."""

DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Set unless they are set: nothing is reported to anybody else, and a server that is down is given up in seconds."""

_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_INCOMPLETE = "incomplete"
_AT_ONCE = 100
_VALUE_CHARS = 5_000
_KEY_CHARS = 240
_NOT_IN_KEYS = re.compile(r"[^/\w.\- :]")


def export_mlflow(
    found: FinishedRun,
    settings: Settings,
    environ: MutableMapping[str, str],
    *,
    experiment: str | None,
    now: Callable[[], datetime],
) -> Exported:
    """Write `found` as a run of MLflow, or bring the one that it has up to date.

    The experiment is `experiment`, else the one in MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID, else "ragstone"; it
    is made if there is none. Raises ConfigError if the package or the server's address is missing; ExportError if the
    server can't be reached or refuses anything: then the run in MLflow has no tag `ragstone.export` that says it is
    complete, and the next export completes it.
    """
    uri = environ.get(URI, "").strip()
    if not uri:
        raise ConfigError(
            "it is not set, so there is no tracking server to send the run to.",
            where=URI,
            hint="Set it to the address of the server, such as https://mlflow.example.com.",
        )
    if uri.startswith(_DATABASES) and importlib.util.find_spec("sqlalchemy") is None:
        raise ConfigError(
            "a database needs all of MLflow, and only its client is installed.",
            where=URI,
            hint="pip install mlflow, or use the address of a tracking server.",
        )
    for name, value in DEFAULTS.items():
        environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise ConfigError(
            "exporting to MLflow needs its client, which is not installed.", hint="pip install 'ragstone[mlflow]'"
        ) from None
    with captured_log("mlflow", "urllib3"):
        with refusing(found, "MLflow", shown_address(uri)):
            tracker = _Tracker(MlflowClient(), found, now)
            place = tracker.experiment(experiment or environ.get("MLFLOW_EXPERIMENT_NAME") or None, environ)
            run = tracker.find(place)
            state: State = "new" if run is None else "updated"
            if run is not None and run.data.tags.get(DIGEST_TAG) == digest(found):
                return Exported(_page(uri, place, run.info.run_id), run.info.run_id, "same")
            if run is None:
                run = tracker.create(place)
        try:
            _write(tracker, run, found, settings, shown_address(uri))
        except Exception:
            with suppress(Exception):
                tracker.client.set_terminated(run.info.run_id, "FAILED")
            raise
    return Exported(_page(uri, place, run.info.run_id), run.info.run_id, state)


def _write(tracker: _Tracker, run: Any, found: FinishedRun, settings: Settings, where: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        files = write_files(found, Path(private), settings, SAMPLES, MISSING)
        with refusing(found, "MLflow", where):
            tracker.describe(run)
            for file in files:
                tracker.client.log_artifact(run.info.run_id, str(file))
            tracker.conclude(run)


class _Tracker:
    """Writes one run to MLflow. The calls raise whatever its client raises."""

    def __init__(self, client: Any, found: FinishedRun, now: Callable[[], datetime]) -> None:
        self.client = client
        self._found = found
        self._now = now

    def experiment(self, name: str | None, environ: Mapping[str, str]) -> str:
        given = environ.get("MLFLOW_EXPERIMENT_ID", "").strip()
        if name is None and given:
            return str(self.client.get_experiment(given).experiment_id)
        known = self.client.get_experiment_by_name(name or EXPERIMENT)
        if known is None:
            return str(self.client.create_experiment(name or EXPERIMENT))
        return str(known.experiment_id)

    def find(self, experiment: str) -> Any:
        """The run of MLflow that this run has already; None if it has none."""
        which = f"tags.`{FINGERPRINT_TAG}` = '{self._found.run.fingerprint}'"
        return next(iter(self.client.search_runs([experiment], which, max_results=1)), None)

    def create(self, experiment: str) -> Any:
        started, commit = self._found.started, self._found.parameters.get("system.commit")
        source = {"mlflow.source.name": "ragstone"} | ({"mlflow.source.git.commit": commit} if commit else {})
        return self.client.create_run(
            experiment,
            start_time=None if started is None else int(started.timestamp() * 1000),
            tags={FINGERPRINT_TAG: self._found.run.fingerprint, DIGEST_TAG: _INCOMPLETE, **source},
            run_name=self._found.name[:_KEY_CHARS],
        )

    def describe(self, run: Any) -> None:
        """Parameters, the golden set, and the figures that are not there yet."""
        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

        name = run.info.run_id
        self.client.set_tag(name, DIGEST_TAG, _INCOMPLETE)
        parameters = {key(name): value[:_VALUE_CHARS] for name, value in self._found.parameters.items()}
        changed = [Param(*pair) for pair in parameters.items() if run.data.params.get(pair[0]) != pair[1]]
        for some in _parts(changed):
            self.client.log_batch(name, params=some)
        golden = self._found.run.manifest.golden
        files = self._found.redact(", ".join(golden.files))
        dataset = Dataset(
            name=files[:500] or "golden set",
            digest=golden.content_hash[:36],
            source_type="local",
            source=json.dumps({"uri": files[:_VALUE_CHARS]}),
            profile=json.dumps({"num_rows": golden.samples}),
        )
        if not any(one.dataset.digest == dataset.digest for one in run.inputs.dataset_inputs):
            self.client.log_inputs(name, [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])])
        figures = {key(name): value for name, value in self._found.figures.items()}
        stamp = int(self._now().timestamp() * 1000)
        new = [Metric(*pair, stamp, 0) for pair in figures.items() if run.data.metrics.get(pair[0]) != pair[1]]
        for some in _parts(new):
            self.client.log_batch(name, metrics=some)

    def conclude(self, run: Any) -> None:
        """Verdict and tables, then that the run has ended, and last that all has arrived."""
        from mlflow.entities import RunTag

        name, found = run.info.run_id, self._found
        shown = [{"path": path, "type": "table"} for path in (SAMPLES, MISSING)]
        tags = {
            "ragstone.verdict": found.verdict or "none",
            "ragstone.reason": found.reason or "",
            "ragstone.judge": found.parameters["judge"],
            "mlflow.loggedArtifacts": json.dumps(shown),
        }
        self.client.log_batch(name, tags=[RunTag(tag, value[:_VALUE_CHARS]) for tag, value in tags.items()])
        ended = found.ended_s
        self.client.set_terminated(name, "FINISHED", None if ended is None else int(ended * 1000))
        self.client.set_tag(name, DIGEST_TAG, digest(found))


def key(name: str) -> str:
    """`name` as MLflow allows the names of parameters and metrics; names that differ stay different."""
    allowed = _NOT_IN_KEYS.sub("_", name)
    if posixpath.normpath(allowed) != allowed or allowed.startswith(("/", "..")):
        allowed = allowed.replace("/", "_")
    if allowed == name and len(name) <= _KEY_CHARS:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{allowed[:_KEY_CHARS]}-{mark}"


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def _page(uri: str, experiment: str, run: str) -> str:
    address = shown_address(uri)
    if not address.startswith(("http://", "https://")):
        return f"run {run} in {address}"
    return f"{address.rstrip('/')}/#/experiments/{experiment}/runs/{run}"
