"""Every key of thresholds.toml and of ragstone.toml, set once: what `check` promises, `gate` does.

The keys are those of the models, so that a new one without an example fails.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ragstone.cli.main import main
from ragstone.gate.policy_table import PolicyTable
from ragstone.settings.load import option_of
from ragstone.settings.settings import Settings
from tests.cli.project import golden_lines
from tests.judge.conftest import FakeLlm, Loop
from tests.loopback import answering, write_certificate

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
OWN = frozenset({"root", "within", "config", "file", "from_file", "of_file"})
"""What `Settings` knows beside the keys of the file."""


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys_of(model: type[BaseModel], *path: str) -> Iterator[str]:
    """The keys of a table, dotted. NAME is what the user chooses."""
    for name, found in model.model_fields.items():
        if model is Settings and name in OWN:
            continue
        inner = list(models_in(found.annotation))
        named = ("NAME",) if "dict[" in str(found.annotation) and inner else ()
        for one in inner:
            yield from keys_of(one, *path, name, *named)
        if not inner:
            yield ".".join((*path, name))


@dataclass(frozen=True)
class Example:
    """Tables to add to the config and to the policy of a project, and variables."""

    config: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


PYTHON = {"entrypoint": "python:houses:answer"}
LLM = {"name": "openai:gpt-4o-mini", "base_url": "{llm}/v1"}
KEY = {"RAGSTONE_JUDGE_API_KEY": "sk-0123456789"}
LOW = {"faithfulness": {"min": 0.5}}


def policy(**tables: Any) -> Example:
    return Example(policy=tables)


def config(**tables: Any) -> Example:
    return Example(config=tables)


def system(**keys: Any) -> Example:
    return config(system={**PYTHON, **keys})


def http(**keys: Any) -> Example:
    return config(system={"entrypoint": "{http}", "env": ["PATH"], "http": keys})


def llm(environ: Mapping[str, str] = KEY, **keys: Any) -> Example:
    return Example(
        config={
            "judge": {**LLM, **keys},
            "run": {"metrics": ["faithfulness", "answer_relevancy"]},
            "gate": {"baseline": ""},
        },
        environ=environ,
    )


def rule(**keys: Any) -> Example:
    return policy(metrics={"faithfulness": keys})


def sliced(**keys: Any) -> Example:
    return policy(slices={"even": {"metrics": {"faithfulness": keys}}})


def rubric(**keys: Any) -> Example:
    found = llm()
    return Example({**found.config, "run": {}, "metrics": {"polite": {"rubric": "Is it polite?", **keys}}}, environ=KEY)


RISE = {"hallucination": {"max": 0.5, "max_rise": 0.5}}
SHOUTS = {"python": "houses:shouts"}

POLICY: Mapping[str, Example] = {
    "gate.only_named": policy(gate={"only_named": True}, metrics=LOW),
    "gate.min_coverage": policy(gate={"min_coverage": 0.5}),
    "gate.max_failed_judgements": policy(gate={"max_failed_judgements": 0.1}),
    "gate.confidence": policy(gate={"confidence": 0.9}),
    "gate.decision": policy(gate={"decision": "point"}),
    "gate.inconclusive": policy(gate={"inconclusive": "fail"}),
    "gate.on_no_baseline": policy(gate={"on_no_baseline": "fail"}),
    "gate.on_judge_change": policy(gate={"on_judge_change": "skip"}),
    "gate.unmatched": policy(gate={"unmatched": "refuse"}),
    "gate.min_paired": policy(gate={"min_paired": 0.5}),
    "gate.confirm": Example({"system": PYTHON}, {"gate": {"confirm": True}}),
    "gate.confirm_repeats": Example({"system": PYTHON}, {"gate": {"confirm_repeats": 2}}),
    "metrics.NAME.min": rule(min=0.5),
    "metrics.NAME.max": policy(metrics=RISE),
    "metrics.NAME.max_drop": rule(max_drop=0.1),
    "metrics.NAME.max_rise": policy(metrics=RISE),
    "metrics.NAME.target": rule(min=0.5, target=0.6),
    "metrics.NAME.lower_is_better": Example(
        {"metrics": {"shouts": SHOUTS}}, {"metrics": {"shouts": {"max": 0.5, "lower_is_better": True}}}
    ),
    "metrics.NAME.max_drift": rule(max_drift=0.1),
    "metrics.NAME.action": rule(min=0.5, action="warn"),
    "slices.NAME.metrics.NAME.min": sliced(min=0.5),
    "slices.NAME.metrics.NAME.max": policy(slices={"even": {"metrics": RISE}}),
    "slices.NAME.metrics.NAME.max_drop": sliced(max_drop=0.1),
    "slices.NAME.metrics.NAME.max_rise": policy(slices={"even": {"metrics": RISE}}),
    "slices.NAME.metrics.NAME.target": sliced(min=0.5, target=0.6),
    "slices.NAME.metrics.NAME.lower_is_better": Example(
        {"metrics": {"shouts": SHOUTS}},
        {"slices": {"even": {"metrics": {"shouts": {"max": 0.5, "lower_is_better": True}}}}},
    ),
    "slices.NAME.metrics.NAME.action": sliced(min=0.5, action="warn"),
    "drift.max_drift": policy(drift={"max_drift": 0.1}),
    "drift.anchor": policy(drift={"anchor": "release"}),
    "drift.days": policy(drift={"days": 30}),
    "drift.action": policy(drift={"action": "warn"}),
    "system.latency_p95_s": policy(system={"latency_p95_s": 5.0}),
    "system.tokens_mean": policy(system={"tokens_mean": 500.0}),
    "system.tokens_p95": policy(system={"tokens_p95": 500.0}),
    "system.cost_mean_usd": Example(
        {"system": {"price": {"input": 1.0, "output": 2.0}}}, {"system": {"cost_mean_usd": 1.0}}
    ),
    "system.cost_p95_usd": Example(
        {"system": {"price": {"input": 1.0, "output": 2.0}}}, {"system": {"cost_p95_usd": 1.0}}
    ),
    "system.max_error_rate": policy(system={"max_error_rate": 0.1}),
    "system.max_empty": policy(system={"max_empty": 0.1}),
    "system.max_unanswered": policy(system={"max_unanswered": 0.1}),
    "system.max_guessed": policy(system={"max_guessed": 0.1}),
    "system.max_broken": policy(system={"max_broken": 0.2}),
    "system.action": policy(system={"latency_p95_s": 5.0, "action": "warn"}),
    "must_pass.samples": policy(must_pass={"samples": ["house-7"]}),
    "must_pass.every": policy(must_pass={"every": True, "metrics": ["faithfulness"], "min": 0.4}),
    "must_pass.metrics": policy(must_pass={"samples": ["house-7"], "metrics": ["faithfulness"]}),
    "must_pass.min": policy(must_pass={"samples": ["house-7"], "metrics": ["faithfulness"], "min": 0.5}),
    "must_pass.action": policy(must_pass={"samples": ["house-7"], "action": "warn"}),
    "labels.file": policy(labels={"file": "calibration.json"}),
    "labels.min_agreement": policy(labels={"file": "calibration.json", "min_agreement": 0.1}),
    "labels.estimate": policy(labels={"file": "calibration.json", "estimate": "judge"}),
}


CONFIG: Mapping[str, Example] = {
    "golden.paths": config(golden={"paths": ["gol*.jsonl"]}),
    "golden.columns": config(golden={"columns": {"group": "id", "reference": "Antwort"}}),
    "golden.limit": config(golden={"limit": 10}),
    "system.entrypoint": config(system=PYTHON),
    "system.part": Example({"system": {"part": "retrieval", **PYTHON}, "gate": {"baseline": ""}}, {"gate": {}}),
    "system.takes_contexts": system(takes_contexts=False),
    "system.version": system(version="2.1"),
    "system.python": system(python=sys.executable),
    "system.working_directory": system(working_directory="."),
    "system.timeout_s": system(timeout_s=30),
    "system.startup_timeout_s": system(startup_timeout_s=60),
    "system.setup_timeout_s": system(setup_timeout_s=60),
    "system.concurrency": system(concurrency=1),
    "system.retries": system(retries=1),
    "system.memory_limit_mb": system(memory_limit_mb=2048),
    "system.env": system(env=["HOME"]),
    "system.answer_field": system(answer_field="answer"),
    "system.contexts_field": system(contexts_field="contexts"),
    "system.context_text_field": system(context_text_field="text"),
    "system.context_id_field": system(context_id_field="id"),
    "system.price.input": config(system={"price": {"input": 1.0, "output": 2.0}}),
    "system.price.output": config(system={"price": {"input": 1.0, "output": 2.0}}),
    "system.http.question_field": http(question_field="q"),
    "system.http.method": http(method="POST"),
    "system.http.id_field": http(id_field="ref"),
    "system.http.history_field": http(history_field="turns"),
    "system.http.given_contexts_field": http(given_contexts_field="passages"),
    "system.http.headers": http(headers={"X-Path": "${PATH}"}),
    "system.http.body": http(body={"top_k": 3}),
    "judge.name": config(judge={"name": "offline"}),
    "judge.model_digests": config(judge={"model_digests": ["0" * 64]}),
    "judge.base_url": llm(),
    "judge.api_key": llm(),
    "judge.auth": llm(auth="key"),
    "judge.headers": llm({**KEY, "RAGSTONE_JUDGE_HEADERS": "X-Team: search"}),
    "judge.embeddings": llm(embeddings="text-embedding-3-large"),
    "judge.embeddings_base_url": llm(embeddings="text-embedding-3-large", embeddings_base_url="{llm}/v1"),
    "judge.embeddings_api_key": llm(
        {**KEY, "RAGSTONE_EMBEDDINGS_API_KEY": "sk-9876543210"},
        embeddings="text-embedding-3-large",
        embeddings_base_url="{llm}/v1",
    ),
    "judge.concurrency": llm(concurrency=4),
    "judge.timeout_s": llm(timeout_s=30),
    "judge.context_window": llm(context_window=32_000),
    "judge.parameters": llm(parameters={"temperature": 0}),
    "judge.max_cost_usd": llm(max_cost_usd=5.0),
    **{
        f"judge.prices.NAME.{key}": llm(prices={"gpt-4o-mini": {"input": 1.0, "output": 2.0, "cached_input": 0.5}})
        for key in ("input", "output", "cached_input")
    },
    "judge.ca_bundle": config(judge={"ca_bundle": "{ca}"}),
    "judge.refresh": config(judge={"refresh": True}),
    "judge.canaries": config(judge={"canaries": 2}),
    "judge.planted": config(judge={"planted": 1}),
    "judge.graded": config(judge={"graded": "never"}),
    "run.out": config(run={"out": "elsewhere"}),
    "run.metrics": config(run={"metrics": ["faithfulness"]}, gate={"baseline": ""}),
    "run.repeats": config(run={"repeats": 2}),
    "run.answers": config(run={"answers": 2}, system=PYTHON),
    "run.resume": config(run={"resume": True}),
    "run.time_limit_s": config(run={"time_limit_s": 300}),
    "run.oracle": config(run={"oracle": True}, system={"entrypoint": "python:houses:given"}),
    "run.seed": config(run={"seed": 7}),
    "run.history": config(run={"history": "history.jsonl"}),
    "run.workers": config(run={"workers": 1}),
    "gate.thresholds": Example({"gate": {"thresholds": "thresholds.toml"}}, {"metrics": LOW}),
    "gate.baseline": config(gate={"baseline": "base"}),
    "gate.baseline_commit": config(gate={"baseline": "", "baseline_commit": "HEAD"}, system=PYTHON),
    "gate.baseline_entrypoint": config(
        gate={"baseline": "", "baseline_commit": "HEAD", "baseline_entrypoint": "python:houses:given"}, system=PYTHON
    ),
    "gate.baseline_folder": config(gate={"baseline": "", "baseline_folder": "baselines"}),
    "gate.baseline_branch": Example(
        {"gate": {"baseline": "", "baseline_folder": "baselines"}}, environ={"RAGSTONE_BASELINE_BRANCH": "main"}
    ),
    "gate.save_baseline": config(gate={"baseline": "", "baseline_folder": "baselines", "save_baseline": True}),
    "gate.fail_on": config(gate={"fail_on": "inconclusive"}),
    "gate.without_key": config(gate={"without_key": "offline"}),
    "metrics.NAME.rubric": rubric(),
    "metrics.NAME.levels": rubric(levels=["rude", "polite"]),
    "metrics.NAME.sees": rubric(sees=["answer"]),
    "metrics.NAME.python": config(metrics={"shouts": SHOUTS}),
    "metrics.NAME.timeout_s": config(metrics={"shouts": {**SHOUTS, "timeout_s": 5}}),
}

ELSEWHERE = {
    "run.dask": "tests/evaluation/test_executors.py",
}
"""Keys that need a cluster, several runs, or files outside of the project: where they are tested."""

CODE = """
FACTS = {f"What is the colour of house number {i}?": f"House number {i} is painted {c}."
         for i, c in ((i, ["red", "green", "blue", "white", "yellow"][i % 5]) for i in range(20))}

def answer(question):
    number = int(question.rstrip("?").split()[-1])
    more = " Bananas were invented in 1834." if number < 2 else ""
    contexts = [{"id": f"d{number}", "text": FACTS[question] + " It has a door.", "score": 0.5}]
    usage = {"input_tokens": 100, "output_tokens": 10}
    return {"answer": FACTS[question] + more, "contexts": contexts, "usage": usage}

def given(question, contexts=None):
    return {**answer(question), **({"contexts": contexts} if contexts else {})}

def shouts(answer):
    return 1.0 if answer.isupper() else 0.0
"""


def toml(value: Any) -> str:
    """`value` as TOML, tables inline."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def write(file: Path, tables: Mapping[str, Mapping[str, Any]], **places: object) -> None:
    lines = [
        f"[{name}]\n" + "".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in table.items())
        for name, table in tables.items()
    ]
    text = "\n".join(lines)
    for name, place in places.items():
        text = text.replace("{" + name + "}", str(place))
    file.write_text(text, encoding="utf-8")


def code_of(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


class Service(BaseHTTPRequestHandler):
    """The system as a service."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names: dict[str, Any] = {}
        exec(CODE, names)
        body = json.dumps(names["answer"](asked.get("question") or asked["q"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """A project with a baseline, the service that it may ask, and the model that may judge it."""
    root = tmp_path_factory.mktemp("keys") / "repo"
    root.mkdir()
    rows = [json.loads(line) for line in golden_lines(20).splitlines()]
    names: dict[str, Any] = {}
    exec(CODE, names)
    answers = [{"id": row["id"], "latency_s": 0.1, **names["answer"](row["question"])} for row in rows]
    golden = [{**row, "reference_contexts": [row["reference"]]} for row in rows]
    for name, lines in (("golden.jsonl", golden), ("answers.jsonl", answers)):
        (root / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (root / "houses.py").write_text(CODE, encoding="utf-8")
    write(root / "ragstone.toml", BASE)
    labels = [f"{row['id']},faithfulness,{'fail' if n < 2 else 'pass'}\n" for n, row in enumerate(rows)]
    (root / "labels.csv").write_text("id,metric,label\n" + "".join(labels), encoding="utf-8")
    public, _ = write_certificate(root.parent / "ca", "localhost")
    loop = Loop()
    with pytest.MonkeyPatch.context() as patch, answering(ThreadingHTTPServer(("127.0.0.1", 0), Service)) as service:
        patch.chdir(root)
        assert code_of("gate", "--out", "base") == 0
        assert code_of("calibrate", "labels.csv", "--run", "base", "-o", "calibration.json") == 0
        write(root / "ragstone.toml", {**BASE, "system": PYTHON})
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "All of it"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)
        http = f"http://127.0.0.1:{service.server_address[1]}/"
        yield {"root": root, "http": http, "llm": loop.serve(FakeLlm()).url, "ca": public}
    loop.close()


BASE: Mapping[str, Mapping[str, Any]] = {
    "golden": {"paths": ["golden.jsonl"]},
    "system": {"entrypoint": "file:answers.jsonl"},
}


@pytest.mark.parametrize(("model", "examples"), [(PolicyTable, POLICY), (Settings, CONFIG)], ids=["policy", "config"])
def test_every_key_has_an_example(model: type[BaseModel], examples: Mapping[str, Example]) -> None:
    # Drift has no slices.
    known = {*examples, *ELSEWHERE, "slices.NAME.metrics.NAME.max_drift"}
    assert set(keys_of(model)) - known == set()
    assert set(examples) - set(keys_of(model)) == set()
    for key, file in ELSEWHERE.items():
        assert f'{{"{option_of(key).table}": {{"{option_of(key).name}": ' in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "example"),
    [
        pytest.param(key, one, id=f"{kind}-{key}")
        for kind, of in (("policy", POLICY), ("config", CONFIG))
        for key, one in of.items()
    ],
)
def test_what_check_promises_the_gate_does(
    key: str, example: Example, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "repo"
    shutil.copytree(places["root"], root)
    monkeypatch.chdir(root)
    for name, value in example.environ.items():
        monkeypatch.setenv(name, value)
    tables: dict[str, Mapping[str, Any]] = {**BASE, "gate": {"baseline": "base"}}
    for name, table in example.config.items():
        tables[name] = {k: v for k, v in {**tables.get(name, {}), **table}.items() if v != ""}
    write(root / "ragstone.toml", tables, **places)
    if example.policy:
        write(root / "thresholds.toml", example.policy, **places)
    assert (key, code_of("check"), code_of("gate")) == (key, 0, 0)
