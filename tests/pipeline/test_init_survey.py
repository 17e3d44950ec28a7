"""What a folder says about its RAG system, without running any of it."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragstone.golden.load import load_golden_set
from ragstone.pipeline.init import survey as survey_module
from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import Survey, survey

ANSWER = "def answer(question): ...\n"


def surveyed(folder: Path, files: Mapping[str, str]) -> Survey:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return survey(folder)


def proposed(folder: Path, files: Mapping[str, str]) -> Proposal:
    proposal = surveyed(folder, files).proposal
    assert proposal is not None
    return proposal


def entrypoint(folder: Path, files: Mapping[str, str]) -> str | None:
    proposal = surveyed(folder, files).proposal
    return None if proposal is None else proposal.entrypoint


@pytest.mark.parametrize(
    ("source", "attribute"),
    [
        ("open('ran', 'w')\ndef answer(question): ...", "answer"),
        ("async def ask(q: str, k=3, *, debug=False): ...", "ask"),
        ("def qa(q, /, pages: dict[str, list[int]] | None = None, *tags: str, k=(1, 2), **more): ...", "qa"),
        ("from langchain_core.runnables import X\nrag_chain = prompt | model", "rag_chain"),
        ("from langchain.chains import create_retrieval_chain\nqa = create_retrieval_chain(r, c)", "qa"),
        ("from llama_index.core import V\nquery_engine = V.load().as_query_engine()", "query_engine"),
        ("from langgraph.graph import S\nbuilder = S(State)\ngraph = builder.compile()", "graph"),
        (
            "class Shop:\n    def __init__(self, k=3): ...\n    async def answer(self, question: str): ...",
            "Shop.answer",
        ),
    ],
)
def test_what_answers_questions_is_proposed(tmp_path: Path, source: str, attribute: str) -> None:
    assert entrypoint(tmp_path, {"app/rag.py": source}) == f"python:app.rag:{attribute}"
    assert not Path("ran").exists(), "source is parsed and never run"


@pytest.mark.parametrize(
    "source",
    [
        "def answer(question, index): ...",  # can't be called with a question alone
        "def answer(question, k=3, *, index): ...",
        "class Shop:\n    def answer(self): ...",
        "def answer(count: int): ...",
        "def answer(question): yield from rag.stream(question)",
        "import langchain\nflags = READ | WRITE",
        "class Robot:\n    def __init__(self, index: Index): ...\n    def answer(self, question): ...",
        "from typing import Protocol\nclass Rag(Protocol):\n    def answer(self, question): ...",
        "class Shop:\n    def invoke(self, question): ...",  # could be anything
        "import langchain\nchat = ChatOpenAI()\nanswer = chat.invoke('Why?')",
        "query = text('SELECT 1')",
        "def answer(question: ...",  # not Python
        "(" * 5_000,
    ],
)
def test_what_can_not_be_asked_is_not_proposed(tmp_path: Path, source: str) -> None:
    assert entrypoint(tmp_path, {"app/rag.py": source}) is None


@pytest.mark.parametrize(
    ("files", "named", "settings"),
    [
        ({"rag.py": ANSWER, "__init__.py": ANSWER}, "rag:answer", {}),
        ({"shop/__init__.py": ANSWER}, "shop:answer", {}),
        ({"my-app/rag.py": ANSWER}, "my-app/rag.py:answer", {}),
        ({"src/shop/rag.py": ANSWER}, "shop.rag:answer", {"working_directory": "src"}),
    ],
)
def test_a_module_is_named_as_it_can_be_imported(
    tmp_path: Path, files: dict[str, str], named: str, settings: dict[str, str]
) -> None:
    proposal = proposed(tmp_path, files)
    assert (proposal.entrypoint, proposal.settings) == (f"python:{named}", settings)


def test_a_function_comes_before_an_object_a_class_and_a_service(tmp_path: Path) -> None:
    source = "class Store:\n    def query(self, text): ...\n"
    assert entrypoint(tmp_path, {"store.py": source, "main.py": ROUTES}) == "python:store:Store.query"
    assert entrypoint(tmp_path, {"app/rag.py": ANSWER}) == "python:app.rag:answer"


MODELS = """
from pydantic import BaseModel
class Ask(BaseModel):
    k: int = 3
    query: str
class Reply(BaseModel):
    reply: str
    passages: list[str]
"""
ROUTES = """
from fastapi import APIRouter, FastAPI
from app.models import Ask, Reply
router = APIRouter(tags=["rag"], prefix='/v1')
@router.post('/things')
def things(body: Ask): ...
@router.post('/ask', response_model=Reply)
def handler(body: Ask): ...
@router.post('/chat/{id}')
def of_one(body: Ask): ...
"""


def test_a_route_is_an_address_with_the_fields_of_its_models(tmp_path: Path) -> None:
    proposal = proposed(tmp_path, {"app/models.py": MODELS, "app/main.py": ROUTES})
    assert proposal.entrypoint == "http://127.0.0.1:8000/v1/ask"
    assert proposal.question_field == "query"
    assert proposal.settings == {"answer_field": "reply", "contexts_field": "passages"}


FLASK = """
from flask import Flask, request
app = Flask(__name__)
@app.route("/ask", methods=["POST"])
def ask(): return {"message": rag(request.json["prompt"]), "documents": []}
"""


def test_a_route_without_models_is_read_by_its_keys(tmp_path: Path) -> None:
    proposal = proposed(tmp_path, {"server.py": FLASK})
    assert proposal.entrypoint == "http://127.0.0.1:5000/ask"
    assert (proposal.question_field, proposal.settings) == ("prompt", {"answer_field": "message"})


@pytest.mark.parametrize(
    ("command", "port"),
    [
        ('CMD ["uvicorn", "server:app", "--host", "0.0.0.0", "--port", "8080"]', 8080),
        ("CMD gunicorn --bind 0.0.0.0:9000 server:app", 9000),
        ("CMD uvicorn server:app --port ${PORT:-7000}", 7000),
        ("CMD ./start.sh", 5000),
    ],
)
def test_the_port_is_that_of_the_dockerfiles_command(tmp_path: Path, command: str, port: int) -> None:
    files = {"server.py": FLASK, "Dockerfile": f"FROM python:3.12\n{command}\n"}
    assert entrypoint(tmp_path, files) == f"http://127.0.0.1:{port}/ask"


def test_keys_that_the_source_reads_are_named(tmp_path: Path) -> None:
    source = (
        "import os\nfrom langchain_anthropic import ChatAnthropic\nfrom openai import OpenAI\n"
        "model, url = ChatAnthropic(), os.environ['SHOP_URL']\nk = os.getenv('TOP_K', '3')\n"
        "other = OpenAI(api_key=os.environ.get('SHOP_KEY'))\nhome = os.environ['HOME'], os.getenv('GITHUB_TOKEN')\n"
    )
    assert surveyed(tmp_path, {"rag.py": source}).variables == ["ANTHROPIC_API_KEY", "SHOP_KEY", "SHOP_URL", "TOP_K"]


def test_a_notebook_gets_a_file_that_answers_as_its_code_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = "%pip install x\n!ls\nclass Shop:\n    def ask(self, q): return 'got ' + q\n"
    cells = {"cells": [{"cell_type": "markdown", "source": ["# It"]}, {"cell_type": "code", "source": [source]}]}
    proposal = proposed(tmp_path, {"sub/it's.ipynb": json.dumps(cells)})
    assert proposal.entrypoint == "python:ragstone_entry:answer"
    assert proposal.glue is not None
    (tmp_path / "ragstone_entry.py").write_text(proposal.glue)
    monkeypatch.chdir(tmp_path)
    assert runpy.run_path("ragstone_entry.py")["answer"]("what?") == "got what?"


def test_tests_environments_hidden_folders_runs_and_links_are_passed_over(tmp_path: Path) -> None:
    for folder in ("tests", ".hidden", "node_modules", "other", "a-run", "outside"):
        (tmp_path / "repo" / folder).mkdir(parents=True)
        (tmp_path / "repo" / folder / "rag.py").write_text(ANSWER)
    (tmp_path / "repo" / "other" / "pyvenv.cfg").touch()
    (tmp_path / "repo" / "a-run" / "manifest.json").touch()
    (tmp_path / "repo" / "a-run" / "samples.jsonl").touch()
    (tmp_path / "repo" / "outside").rename(tmp_path / "outside")
    (tmp_path / "repo" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "repo" / "rag.py").symlink_to(tmp_path / "outside" / "rag.py")
    assert survey(tmp_path / "repo").proposal is None


ROWS = [{"question": "Why?", "answer": "So."}, {"question": "How?", "answer": "So."}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eval/qa.jsonl", '{"query": "Why?", "ground_truth": "So."}\n{"query": "How?", "ground_truth": "So."}\n'),
        ("questions.csv", "question,expected_answer\nWhy?,So.\nHow?,So.\n"),
        ("golden[1].json", json.dumps(ROWS)),
    ],
)
def test_an_existing_golden_set_is_found_in_any_format(tmp_path: Path, name: str, text: str) -> None:
    found = surveyed(tmp_path, {name: text, "package.json": '{"name": "x"}'})
    assert found.golden_file is not None
    assert found.golden is not None
    assert len(found.golden) == len(load_golden_set([found.golden_file], root=tmp_path)) == 2


@pytest.mark.parametrize("text", ["question\nWhy?\n", "colour,size\nred,3\n", "", "question,reference\n"])
def test_a_file_without_anything_to_compare_with_is_not_a_golden_set(tmp_path: Path, text: str) -> None:
    assert surveyed(tmp_path, {"questions.csv": text}).golden is None


def test_long_chains_of_calls_and_operators_are_read(tmp_path: Path) -> None:
    long = 300
    source = f"""
import os
import langchain
x = a{".b(1)" * long}
y = a{"[0]" * long}
z = {"-" * long}a
key = os.environ["SHOP_TOKEN"]
chain = a{" | a" * long}
def make():
    return a{".b" * long}()
"""
    found = surveyed(tmp_path, {"rag.py": source})
    assert found.proposal is not None
    assert found.proposal.entrypoint == "python:rag:chain"
    assert found.variables == ["SHOP_TOKEN"]


def test_sources_and_golden_sets_are_read_up_to_a_limit_nearest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "MAX_DATA_BYTES", 2_000)
    row = '{"question": "Why?", "reference": "So."}\n'
    files = {"a.py": "#" * 1_990, "rag.py": ANSWER, "golden_big.jsonl": row * 100, "golden_small.jsonl": row}
    found = surveyed(tmp_path, files)
    assert found.proposal is None
    assert found.golden_file == "golden_small.jsonl"


def test_links_in_a_circle_pipes_and_names_that_can_not_be_printed_are_passed_over(tmp_path: Path) -> None:
    for name in ("rag\x1b[31m.py", "a\nb.py", "c\u202e.py", os.fsdecode(b"\xff.py")):
        (tmp_path / name).write_text(ANSWER, encoding="utf-8")
    (tmp_path / "circle").symlink_to("..")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "golden.jsonl").symlink_to("golden.jsonl")
    os.mkfifo(tmp_path / "golden_pipe.jsonl")
    found = survey(tmp_path)
    assert (found.proposal, found.golden) == (None, None)
