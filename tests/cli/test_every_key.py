"""Every key of thresholds.toml and of ragstone.toml, set in some example: what `check` promises, `gate` does.

The keys are those of the models, so that a new one without an example fails.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ragstone.cli.main import main
from ragstone.gate.policy_table import PolicyTable
from ragstone.settings.load import OPTIONS, option_of
from ragstone.settings.settings import Settings
from tests.cli.project import golden_lines, write_rows
from tests.judge.conftest import FakeLlm, Loop
from tests.loopback import answering

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
OWN = frozenset({"root", "within", "config", "file", "from_file", "file_settings"})
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
PRICE = {"input": 1.0, "output": 2.0}
RULES: Mapping[str, Mapping[str, Any]] = {
    "faithfulness": {"min": 0.5, "max_drop": 0.1, "action": "warn"},
    "hallucination": {"max": 0.5, "max_rise": 0.5},
}
SHOUTS = {"shouts": {"max": 0.5, "lower_is_better": True}}

EXAMPLES: Mapping[str, Example] = {
    "rules": Example(
        {"system": {"price": PRICE}},
        {
            "gate": {
                "min_coverage": 0.5,
                "max_failed_judgements": 0.1,
                "confidence": 0.9,
                "on_no_baseline": "fail",
                "on_judge_change": "skip",
                "max_broken_questions": 0.5,
                "max_unquoted": 0.5,
                "max_edited": 0.5,
                "min_paired": 0.5,
            },
            "metrics": {**RULES, "faithfulness": {**RULES["faithfulness"], "max_drift": 0.1}},
            "slices": {"even": {"metrics": RULES}},
            "drift": {"max_drift": 0.1, "days": 30, "action": "warn"},
            "system": {
                "latency_p95_s": 5.0,
                "tokens_mean": 500.0,
                "cost_mean_usd": 1.0,
                "max_latency_rise": 0.5,
                "max_token_rise": 0.5,
                "max_cost_rise": 0.5,
                "max_error_rate": 0.1,
                "max_empty": 0.1,
                "max_unanswered": 0.1,
                "max_guessed": 0.1,
                "max_broken": 0.2,
                "max_fruitless": 0.2,
                "max_misranked": 0.1,
                "action": "warn",
            },
            "must_pass": {
                "samples": ["house-7"],
                "questions": {"house-8": "What is the colour of house number 8?"},
                "min": 0.5,
                "action": "warn",
            },
        },
    ),
    "other rules": Example(
        policy={
            "gate": {"only_named": True, "decision": "assured", "inconclusive": "fail"},
            "metrics": {"faithfulness": {"min": 0.5}},
            "must_pass": {"every": True, "baseline": True, "min": 0.4},
        }
    ),
    "confirmation": Example({"system": PYTHON}, {"gate": {"confirm": True, "confirm_repeats": 2}}),
    "rules of a function": Example(
        {"metrics": {"shouts": {"python": "houses:shouts", "timeout_s": 5}}},
        {"metrics": SHOUTS, "slices": {"even": {"metrics": SHOUTS}}},
    ),
    "labels": Example(policy={"labels": {"file": "calibration.json", "min_agreement": 0.1, "estimate": "judge"}}),
    "golden set": Example(
        {"golden": {"paths": ["g*.jsonl"], "columns": {"group": "id"}, "history": "own", "limit": 10}}
    ),
    "a few questions": Example(
        {"golden": {"paths": ["golden.jsonl"]}, "gate": {"baseline": ""}},
        environ={"RAGSTONE_ONLY": "house-1, house-4", "RAGSTONE_TAG": "even"},
    ),
    "system": Example(
        {
            "system": {
                **PYTHON,
                "version": "2.1",
                "python": sys.executable,
                "working_directory": ".",
                "timeout_s": 30,
                "startup_timeout_s": 60,
                "concurrency": 1,
                "retries": 1,
                "env": ["HOME"],
                "answer_field": "answer",
                "contexts_field": "contexts",
                "context_text_field": "text",
                "context_id_field": "id",
                "steps_field": "steps",
                "price": PRICE,
            }
        }
    ),
    "service": Example(
        {
            "system": {
                "entrypoint": "{http}",
                "env": ["PATH"],
                "http": {
                    "question_field": "q",
                    "history_field": "turns",
                    "session_field": "talk",
                    "headers": {"X-Path": "${PATH}"},
                    "body": {"top_k": 3},
                },
            }
        }
    ),
    "turns by themselves": Example({"judge": {"earlier_contexts": False}, "gate": {"baseline": ""}}),
    "half of a system": Example(
        {"system": {"part": "retrieval", **PYTHON}, "gate": {"baseline": ""}}, {"gate": {"min_coverage": 0.5}}
    ),
    "offline judge": Example({"judge": {"name": "offline", "model_digests": ["0" * 64], "canaries": 2, "planted": 1}}),
    "judge": Example(
        {
            "judge": {
                **LLM,
                "embeddings": "text-embedding-3-large",
                "embeddings_base_url": "{llm}/v1",
                "concurrency": 4,
                "timeout_s": 30,
                "patience_s": 60,
                "context_window": 32_000,
                "parameters": {"temperature": 0},
                "max_cost_usd": 5.0,
                "prices": {"gpt-4o-mini": {**PRICE, "cached_input": 0.5}, "text-embedding-3-large": PRICE},
            },
            "run": {"metrics": ["faithfulness", "answer_relevancy"]},
            "gate": {"baseline": ""},
        },
        environ={**KEY, "RAGSTONE_JUDGE_HEADERS": "X-Team: search", "RAGSTONE_EMBEDDINGS_API_KEY": "sk-9876543210"},
    ),
    "rubric": Example(
        {
            "judge": LLM,
            "metrics": {"polite": {"rubric": "Is it polite?", "levels": ["rude", "polite"], "sees": ["answer"]}},
            "gate": {"baseline": ""},
        },
        environ=KEY,
    ),
    "run": Example(
        {
            "system": PYTHON,
            "run": {
                "out": "elsewhere",
                "repeats": 2,
                "answers": 2,
                "resume": True,
                "time_limit_s": 300,
                "history": "history.jsonl",
                "workers": 1,
            },
        }
    ),
    "oracle": Example({"run": {"oracle": True}, "system": {"entrypoint": "python:houses:given"}}),
    "gate": Example(
        {
            "gate": {
                "thresholds": "thresholds.toml",
                "baseline": "base",
                "fail_on": "inconclusive",
                "without_key": "offline",
            }
        },
        {"metrics": {"faithfulness": {"min": 0.5}}},
    ),
    "base commit": Example(
        {
            "system": PYTHON,
            "gate": {"baseline": "", "baseline_commit": "HEAD", "baseline_entrypoint": "python:houses:given"},
        }
    ),
    "baseline folder": Example(
        {"gate": {"baseline": "", "baseline_folder": "baselines", "save_baseline": True}},
        environ={"RAGSTONE_BASELINE_BRANCH": "main"},
    ),
}

ELSEWHERE = {"run.dask": "tests/evaluation/test_parallel.py"}
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
        write_rows(root / name, lines)
    (root / "houses.py").write_text(CODE, encoding="utf-8")
    write(root / "ragstone.toml", BASE)
    labels = [f"{row['id']},{'fail' if n < 2 else 'pass'}\n" for n, row in enumerate(rows)]
    (root / "labels.csv").write_text("id,faithfulness\n" + "".join(labels), encoding="utf-8")
    loop = Loop()
    with pytest.MonkeyPatch.context() as patch, answering(ThreadingHTTPServer(("127.0.0.1", 0), Service)) as service:
        patch.chdir(root)
        assert code_of("gate", "--out", "base") == 0
        assert code_of("calibrate", "labels.csv", "--run", "base", "-o", "calibration.json") == 0
        write(root / "ragstone.toml", {**BASE, "system": PYTHON})
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "All of it"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)
        http = f"http://127.0.0.1:{service.server_address[1]}/"
        yield {"root": root, "http": http, "llm": loop.serve(FakeLlm()).url}
    loop.close()


BASE: Mapping[str, Mapping[str, Any]] = {
    "golden": {"paths": ["golden.jsonl"]},
    "system": {"entrypoint": "file:answers.jsonl"},
}


def is_set(table: Any, key: Sequence[str]) -> bool:
    if not key:
        return True
    if not isinstance(table, Mapping):
        return False
    name, *inner = key
    values = table.values() if name == "NAME" else [table[name]] if name in table else []
    return any(is_set(value, inner) for value in values)


def test_every_key_has_an_example() -> None:
    policies, configs = ([getattr(one, kind) for one in EXAMPLES.values()] for kind in ("policy", "config"))
    variables = {name for example in EXAMPLES.values() for name in example.environ}
    # Drift has no slices.
    known = {*ELSEWHERE, "slices.NAME.metrics.NAME.max_drift"}
    known |= {option.key for option in OPTIONS if option.env in variables}
    for model, tables in ((PolicyTable, policies), (Settings, configs)):
        without = {key for key in keys_of(model) if not any(is_set(table, key.split(".")) for table in tables)}
        # `ragstone monitor` alone reads its table: see tests/tools/monitor.
        of_the_gate = {key for key in without if not key.startswith("monitor.")}
        assert of_the_gate - known == set()
    for key, file in ELSEWHERE.items():
        assert f"{option_of(key).name}=" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_check_promises_the_gate_does(
    name: str, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[name]
    root = tmp_path / "repo"
    shutil.copytree(places["root"], root)
    monkeypatch.chdir(root)
    for variable, value in example.environ.items():
        monkeypatch.setenv(variable, value)
    tables: dict[str, Mapping[str, Any]] = {**BASE, "gate": {"baseline": "base"}}
    for heading, table in example.config.items():
        tables[heading] = {k: v for k, v in {**tables.get(heading, {}), **table}.items() if v != ""}
    write(root / "ragstone.toml", tables, **places)
    if example.policy:
        write(root / "thresholds.toml", example.policy, **places)
    assert (code_of("check"), code_of("gate")) == (0, 0)
