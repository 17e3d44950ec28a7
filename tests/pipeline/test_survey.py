"""What a folder says about its RAG system, without running any of it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

import pytest

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Sample
from ragstone.pipeline.survey import look, openapi, python_code
from ragstone.pipeline.survey.look import Survey, survey
from ragstone.pipeline.survey.proposal import Proposal
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.response import Response, System
from tests.loopback import answering

ANSWER = "def answer(question): ...\n"
ASKS = {
    "openapi": "3.1.0",
    "paths": {
        "/health": {"get": {}},
        "/ingest": {
            "post": {"requestBody": {"content": {"application/json": {"schema": {"properties": {"text": {}}}}}}}
        },
        "/ask": {
            "post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}}}
        },
    },
    "components": {"schemas": {"Ask": {"required": ["query", "tenant"], "properties": {"query": {}, "tenant": {}}}}},
}


def proposed(source: str, path: str) -> list[Proposal]:
    return list(python_code.proposals_of(python_code.Source(PurePosixPath(path), python_code.parsed(source))))


def found_in(source: str, path: str = "app/rag.py") -> list[str]:
    return [one.entrypoint for one in proposed(source, path)]


def surveyed(folder: Path, files: Mapping[str, str]) -> Survey:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return survey(folder, ports=())


@pytest.mark.parametrize(
    ("source", "attribute"),
    [
        ("def answer(question): ...", "answer"),
        (
            "class Docs:\n    def __init__(self, path): ...\n    def ask(self, q): ...\n    "
            "def __call__(self, question): ...\nanswer = Docs('docs')",
            "answer",
        ),
        ("async def ask(q: str, k=3, *, debug=False): ...", "ask"),
        ("from langchain_core.runnables import X\nrag_chain = prompt | model", "rag_chain"),
        ("from langchain.chains import create_retrieval_chain\nqa = create_retrieval_chain(r, c)", "qa"),
        ("import langchain\ndef build_chain():\n    return a | b", "build_chain"),
        ("from llama_index.core import V\ndef make():\n    return V.load().as_query_engine()", "make"),
        ("from langchain_openai import C\ndef look_up(question: str): ...", "look_up"),
        ("class Shop:\n    def __init__(self, k=3): ...\n    async def answer(self, question: str): ...", "Shop"),
    ],
)
def test_what_answers_questions_is_found(source: str, attribute: str) -> None:
    assert found_in(source) == [f"python:app.rag:{attribute}"]


@pytest.mark.parametrize(
    "source",
    [
        "def answer(question, index): ...",  # can't be called with a question alone
        "class Docs:\n    def __call__(self, question, index): ...\nanswer = Docs()",
        "class Docs:\n    def __call__(self, question): ...\nlimits = Docs()",  # could be anything
        "def answer(*, question): ...",
        "def answer(count: int): ...",
        "def _answer(question): ...",
        "import langchain\nflags = READ | WRITE",
        "class Robot:\n    def __init__(self, index): ...\n    def answer(self, question): ...",
        "class Shop:\n    def invoke(self, question): ...",  # could be anything
        "def answer(question: ...",  # not Python
        "(" * 5_000,
    ],
)
def test_what_can_not_be_asked_is_not_proposed(source: str) -> None:
    assert found_in(source) == []


@pytest.mark.parametrize(
    ("path", "entrypoint"),
    [
        ("rag.py", "python:rag:answer"),
        ("shop/__init__.py", "python:shop:answer"),
        ("src/shop/rag.py", "python:shop.rag:answer"),
        ("my-app/rag.py", "python:my-app/rag.py:answer"),
    ],
)
def test_modules_are_named_as_an_entrypoint_names_them(path: str, entrypoint: str) -> None:
    assert found_in("def answer(question): ...", path) == [entrypoint]


FASTAPI = """
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
app = FastAPI()
router = APIRouter(prefix='/chat')
class Ask(BaseModel):
    k: int = 3
    query: str
@app.post('/ask')
def handler(body: Ask): ...
@app.post('/things/{id}')
def other(body: Ask): ...
@router.post('')
def chat_once(body: Ask): ...
@router.post('/compare')
def compare(body: Ask): ...
"""


def test_a_route_is_an_address_with_the_prefix_of_its_router_and_the_field_of_its_model() -> None:
    found = proposed(FASTAPI, "main.py")
    routes = ["/ask", "/chat", "/chat/compare"]
    assert [one.entrypoint for one in found] == [f"http://127.0.0.1:8000{route}" for route in routes]
    assert {one.question_field for one in found} == {"query"}


FLASK = """
from flask import Flask, request
app = Flask(__name__)
@app.route("/")
def index(): return "question"
@app.route("/ask", methods=["POST"])
def ask(): return {"answer": rag(request.json["query"])}
"""
SERVER = """
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        if self.path != "/answer": return self.send_error(404)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(rag(body.get("question")))
if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
"""
MAIN = "\nif __name__ == '__main__':\n    main()\n"


ASKS_ARGUMENT = "import argparse\ndef main():\n    p.add_argument('question')"
ASKS_OPTION = "def main():\n    p.add_argument('-q', '--query', help='question')"
ASKS_CLICK = "@click.command()\n@click.argument('q')\ndef main(q): ..."
ASKS_LINES = "import json, sys\ndef main():\n    for line in sys.stdin: json.loads(line)"


@pytest.mark.parametrize(
    ("source", "entrypoint", "field"),
    [
        (FLASK, "http://127.0.0.1:5000/ask", "query"),
        (FLASK + "app.run(port=9000)", "http://127.0.0.1:9000/ask", "query"),
        (SERVER, "http://127.0.0.1:8765/answer", "question"),
        (ASKS_ARGUMENT + MAIN, "command:python3 server.py -- {question}", None),
        (ASKS_OPTION + MAIN, "command:python3 server.py --query {question}", None),
        (ASKS_CLICK + MAIN, "command:python3 server.py -- {question}", None),
        (ASKS_LINES + MAIN, "command:python3 server.py", None),
    ],
)
def test_a_server_or_a_program_is_found(source: str, entrypoint: str, field: str | None) -> None:
    (proposal,) = proposed(source, "server.py")
    assert (proposal.entrypoint, proposal.question_field) == (entrypoint, field)


def test_only_a_program_with_a_telling_name_is_asked_by_its_only_argument() -> None:
    source = "import sys\ndef main():\n    print(sys.argv[1])" + MAIN
    assert found_in(source, "cli.py") == ["command:python3 cli.py {question}"]
    assert found_in(source, "my app/cli.py") == ["command:python3 'my app/cli.py' {question}"]
    assert found_in(source, "build_index.py") == []
    assert found_in("import sys\nprint(sys.argv[1])", "cli.py") == []  # a module that is imported


def test_the_operation_that_asks_comes_first_and_says_what_else_it_needs() -> None:
    best = min(openapi.proposals_in(ASKS, "openapi.json"), key=lambda one: one.rank)
    assert (best.entrypoint, best.question_field) == ("http://127.0.0.1:8000/ask", "query")
    assert "also requires tenant" in best.why


def described(schema: Mapping[str, object], **more: object) -> dict[str, object]:
    """A description of one operation, POST /chat, with this body."""
    body = {"content": {"application/json": {"schema": schema}}}
    return {"openapi": "3.1.0", "paths": {"/chat": {"post": {"requestBody": body}}}, **more}


@pytest.mark.parametrize(
    ("message", "field", "inside"),
    [
        ({"role": {}, "content": {}}, "messages.-1.content", {"role": "user", "content": ""}),
        (
            {"role": {}, "parts": {}},
            "messages.-1.parts.0.text",
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": ""}]},
        ),
    ],
)
def test_a_list_of_messages_is_written_as_a_template_with_what_else_is_required(
    message: dict[str, object], field: str, inside: dict[str, object]
) -> None:
    listed = {"type": "array", "items": {"$ref": "#/components/schemas/Message"}}
    schema = {
        "required": ["model", "messages", "tenant"],
        "properties": {"model": {"default": "gpt-5.4"}, "messages": listed, "tenant": {"type": "string"}},
    }
    document = described(schema, components={"schemas": {"Message": {"properties": message}}})
    (found,) = openapi.proposals_in(document, "openapi.json")
    assert (found.entrypoint, found.question_field) == ("http://127.0.0.1:8000/chat", field)
    assert found.http == {"history_field": "messages", "body": {"messages": [inside], "model": "gpt-5.4", "tenant": ""}}
    assert "also requires tenant" in found.why


@pytest.mark.parametrize(("method", "http"), [("get", {"method": "GET"}), ("post", {})])
def test_a_question_in_the_query_string_is_part_of_the_address(method: str, http: dict[str, str]) -> None:
    parameters = [{"name": "question", "in": "query", "required": True}, {"name": "k", "in": "query"}]
    document = {"openapi": "3.1.0", "paths": {"/ask": {method: {"parameters": parameters}}}}
    (found,) = openapi.proposals_in(document, "openapi.json")
    assert found.entrypoint == "http://127.0.0.1:8000/ask?question={question}"
    assert (found.question_field, found.http) == (None, http)
    document["paths"] = {
        "/ask": {method: {"parameters": [*parameters, {"name": "u", "in": "query", "required": True}]}}
    }
    assert list(openapi.proposals_in(document, "openapi.json")) == []


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://rag.example.org/v1/", "https://rag.example.org/v1"),
        ("/v1", "http://127.0.0.1:8000/v1"),
        ("https://user:secret@example.org", "http://127.0.0.1:8000"),
        ("https://{tenant}.example.org", "http://127.0.0.1:8000"),
        ("file:///etc/passwd", "http://127.0.0.1:8000"),
        ("https://a.example\n[judge]", "http://127.0.0.1:8000"),
    ],
)
def test_only_a_plain_server_address_is_used(url: str, base: str) -> None:
    found = {one.entrypoint for one in openapi.proposals_in({**ASKS, "servers": [{"url": url}]}, "openapi.json")}
    assert f"{base}/ask" in found


@pytest.mark.parametrize(
    "document",
    [None, [], {"openapi": 3}, {"openapi": "3", "paths": []}, {"openapi": "3", "paths": {"/a": {"post": 1}}}],
)
def test_a_description_of_another_shape_offers_nothing(document: object) -> None:
    assert list(openapi.proposals_in(document, "openapi.json")) == []


def test_a_reference_to_itself_ends() -> None:
    loop = {**ASKS, "components": {"schemas": {"Ask": {"$ref": "#/components/schemas/Ask"}}}}
    assert [one.entrypoint for one in openapi.proposals_in(loop, "x")] == ["http://127.0.0.1:8000/ingest"]


HAYSTACK = """
from haystack import Pipeline
indexing = Pipeline()
indexing.add_component("splitter", DocumentSplitter())
indexing.add_component("writer", DocumentWriter(store))
retriever = InMemoryBM25Retriever(store)
answering = Pipeline()
answering.add_component("retriever", retriever)
answering.add_component("llm", OpenAIChatGenerator(model="m"))
answering.connect("retriever", "llm")

def build_indexing_pipeline():
    made = Pipeline()
    made.add_component("writer", DocumentWriter(store))
    return made

def create():
    made = Pipeline()
    made.add_component("generator", OpenAIGenerator())
    return made
"""
LANGGRAPH = """
import re
from langgraph.graph import StateGraph
pattern = re.compile("x")
builder = StateGraph(State)
graph = builder.compile()
"""
DSPY = """
import dspy
reader = dspy.ChainOfThought("context, question -> answer")
class Answerer(dspy.Module):
    def forward(self, question): ...
"""


@pytest.mark.parametrize(
    ("source", "attributes"),
    [
        (HAYSTACK, ["answering", "create"]),
        (LANGGRAPH, ["graph"]),
        (DSPY, ["Answerer"]),
        ("import langchain\ndef make():\n    made = prompt | model\n    return made", ["make"]),
        ("class Docs:\n    def ask(self, question): ...\n    def load(self, path): ...", ["Docs"]),
        ("from typing import Protocol\nclass Rag(Protocol):\n    def answer(self, question): ...", []),
    ],
)
def test_only_what_can_be_asked_is_found_in_the_source_of_a_framework(source: str, attributes: list[str]) -> None:
    assert found_in(source) == [f"python:app.rag:{attribute}" for attribute in attributes]


def test_a_call_of_the_model_alone_comes_after_a_class_that_answers(tmp_path: Path) -> None:
    model = "import langchain_openai\ndef generate_response(prompt): ...\n"
    pipeline = "class RAGPipeline:\n    def query(self, question): ...\n"
    found = surveyed(tmp_path, {"llm.py": model, "pipeline.py": pipeline})
    assert found.proposals[0].entrypoint == "python:pipeline:RAGPipeline"


def test_a_class_is_named_with_the_method_that_is_asked_if_the_worker_would_not_find_it() -> None:
    assert found_in("class Sms:\n    def ask_question(self, question: str): ...") == ["python:app.rag:Sms.ask_question"]
    assert found_in("class RagApi:\n    def __call__(self, payload): ...") == []


NEIGHBOURS = {"app/llm.py": "model = 1\n", "app/agent.py": f"from llm import model\n{ANSWER}"}


@pytest.mark.parametrize(
    ("files", "entrypoint", "settings"),
    [
        ({"src/rag.py": f"from src.config import K\n{ANSWER}"}, "python:src.rag:answer", {}),
        ({"src/rag.py": ANSWER}, "python:rag:answer", {"working_directory": "src"}),
        ({"src/rag.py": ANSWER, "src/__init__.py": ""}, "python:src.rag:answer", {}),
        (NEIGHBOURS, "python:app/agent.py:answer", {}),
    ],
    ids=["imported as src", "a folder src", "a package src", "it imports its neighbours"],
)
def test_a_module_is_named_as_it_can_be_imported(
    tmp_path: Path, files: dict[str, str], entrypoint: str, settings: dict[str, str]
) -> None:
    first = surveyed(tmp_path, files).proposals[0]
    assert (first.entrypoint, first.settings) == (entrypoint, settings)


def test_names_of_variables_that_the_source_reads_are_found(tmp_path: Path) -> None:
    source = (
        "import os\nfrom langchain_anthropic import ChatAnthropic\nfrom openai import OpenAI\n"
        "model, url = ChatAnthropic(), os.environ['SHOP_URL']\nk = os.getenv('TOP_K', '3')\n"
        "other = OpenAI(api_key=os.environ.get('SHOP_KEY'))\nhome = os.environ['HOME'], os.getenv('GITHUB_TOKEN')\n"
    )
    dotenv = "# DATABASE_URL=x\nexport QDRANT_KEY='not-shown'\nRAGSTONE_JUDGE_API_KEY=y\n"
    found = surveyed(tmp_path, {"rag.py": source, ".env": dotenv})
    assert found.variables == ("ANTHROPIC_API_KEY", "QDRANT_KEY", "SHOP_KEY", "SHOP_URL", "TOP_K")
    assert "not-shown" not in repr(found)


LOOP = """
import langchain
rag_chain = Piece() | Piece()
while True:
    print(rag_chain.invoke(input("> ")))
"""
CHAIN = """
class Piece:
    def __or__(self, other): return self
    def invoke(self, question): return "got " + question
"""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("loop.py", CHAIN + LOOP),
        ("main.py", CHAIN + "import langchain\nif __name__ == '__main__':\n    rag_chain = Piece() | Piece()\n"),
        ("sub/it's.py", CHAIN + LOOP),
        ("rag.ipynb", CHAIN + "%pip install x\n!ls\n" + LOOP),
    ],
)
def test_glue_for_what_can_not_be_imported_works_as_printed(tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    cells = {"cells": [{"cell_type": "markdown", "source": ["# It"]}, {"cell_type": "code", "source": [source]}]}
    (tmp_path / name).write_text(json.dumps(cells) if name.endswith(".ipynb") else source)
    (tmp_path / "langchain.py").touch()
    first, *others = survey(tmp_path, ports=()).proposals
    assert (first.entrypoint, others) == ("python:ragstone_entry:answer", [])
    assert first.glue is not None
    (tmp_path / "ragstone_entry.py").write_text(first.glue)
    settings = SystemSettings(entrypoint=first.entrypoint)
    system = build_system(settings, root=tmp_path, environ={"PATH": os.environ["PATH"]})
    assert asyncio.run(_asked(system)).answer == "got what?"


async def _asked(system: System) -> Response:
    try:
        await system.start()
        return await system.ask(Sample("a", "what?"))
    finally:
        await system.close()


def test_source_is_parsed_and_never_run(tmp_path: Path) -> None:
    found = surveyed(tmp_path, {"rag.py": f"open('ran', 'w')\n{ANSWER}"})
    assert found.proposals[0].entrypoint == "python:rag:answer"
    assert not (tmp_path / "ran").exists()


def test_tests_environments_hidden_folders_runs_and_links_are_passed_over(tmp_path: Path) -> None:
    for folder in ("tests", ".hidden", "node_modules", "other", "a-run", "outside"):
        (tmp_path / "repo" / folder).mkdir(parents=True)
        (tmp_path / "repo" / folder / "rag.py").write_text("def answer(question): ...\n")
    (tmp_path / "repo" / "other" / "pyvenv.cfg").touch()
    (tmp_path / "repo" / "a-run" / "manifest.json").touch()
    (tmp_path / "repo" / "a-run" / "samples.jsonl").touch()
    (tmp_path / "repo" / "outside").rename(tmp_path / "outside")
    (tmp_path / "repo" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "repo" / "rag.py").symlink_to(tmp_path / "outside" / "rag.py")
    assert survey(tmp_path / "repo", ports=()).proposals == ()


ROWS = [{"question": "Why?", "answer": "So."}, {"question": "How?", "answer": "So."}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eval/qa.jsonl", '{"query": "Why?", "ground_truth": "So."}\n{"query": "How?", "ground_truth": "So."}\n'),
        ("questions.csv", "question,expected_answer\nWhy?,So.\nHow?,So.\n"),
        ("data/golden.yaml", "- question: Why?\n  reference: So.\n- question: How?\n  reference: So.\n"),
        ("golden[1].json", json.dumps(ROWS)),
    ],
)
def test_an_existing_golden_set_is_found_in_any_format(tmp_path: Path, name: str, text: str) -> None:
    found = surveyed(tmp_path, {name: text, "package.json": '{"name": "x"}'}).golden
    assert found is not None
    assert found.samples == 2
    assert len(load_golden_set([found.path], root=tmp_path)) == 2


@pytest.mark.parametrize("text", ["question\nWhy?\n", "colour,size\nred,3\n", "", "question,reference\n"])
def test_a_file_without_anything_to_compare_with_is_not_a_golden_set(tmp_path: Path, text: str) -> None:
    assert surveyed(tmp_path, {"questions.csv": text}).golden is None


class _Service(BaseHTTPRequestHandler):
    seen: list[str]
    body: bytes
    status = 200

    def do_GET(self) -> None:
        self.seen.append(f"GET {self.path}")
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[tuple[int, list[str]]]:
    body, status = request.param
    seen: list[str] = []
    handler = type("Service", (_Service,), {"seen": seen, "body": body, "status": status})
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield server.server_port, seen


@pytest.mark.parametrize("service", [(json.dumps(ASKS).encode(), 200)], indirect=True)
def test_a_running_service_is_asked_only_with_probe_and_only_for_its_description(
    tmp_path: Path, service: tuple[int, list[str]]
) -> None:
    port, seen = service
    silent = survey(tmp_path, ports=(port,))
    assert (silent.ports, silent.proposals, seen) == ((port,), (), [])
    asked = survey(tmp_path, probe=True, ports=(port,))
    assert asked.proposals[0].entrypoint == f"http://127.0.0.1:{port}/ask"
    assert seen == ["GET /openapi.json"]


@pytest.mark.parametrize(
    "service",
    [(b"<html>", 200), (b"[" * 200_000, 200), (b" " * 3_000_000, 200), (json.dumps(ASKS).encode(), 302), (b"", 500)],
    indirect=True,
    ids=["html", "deep", "huge", "redirect", "broken"],
)
def test_a_service_that_answers_anything_else_offers_nothing(tmp_path: Path, service: tuple[int, list[str]]) -> None:
    port, seen = service
    assert survey(tmp_path, probe=True, ports=(port,)).proposals == ()
    assert seen == ["GET /openapi.json"]


def test_a_closed_port_is_not_named(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert survey(tmp_path, probe=True, ports=(closed.getsockname()[1],)).ports == ()


def test_a_route_that_is_named_for_questions_comes_before_others(tmp_path: Path) -> None:
    source = FASTAPI.replace("'/ask'", "'/arena/compare'").replace("/things/{id}", "/talk/chat")
    first, *others = surveyed(tmp_path, {"main.py": source}).proposals
    assert first.entrypoint.endswith("/chat")
    assert any(one.entrypoint.endswith("/arena/compare") for one in others)


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
    assert [one.entrypoint for one in found.proposals] == ["python:rag:chain"]
    assert found.variables == ("SHOP_TOKEN",)


def test_sources_notebooks_and_golden_sets_are_read_up_to_a_limit_nearest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "MAX_DATA_BYTES", 2_000)
    row = '{"question": "Why?", "reference": "So."}\n'
    cell = {"cell_type": "code", "source": ["import langchain\n", "chain = a | b\n"]}
    files = {
        "a.py": "#" * 1_900,
        "rag.py": ANSWER,
        "deep/left_out.py": ANSWER + "#" * 100,
        "golden_big.jsonl": row * 100,
        "golden_small.jsonl": row,
        "big.ipynb": json.dumps({"cells": [cell] * 100}),
        "small.ipynb": json.dumps({"cells": [cell]}),
    }
    found = surveyed(tmp_path, files)
    assert [one.why.rpartition(" ")[2] for one in found.proposals] == ["rag.py", "small.ipynb"]
    assert found.golden is not None
    assert found.golden.path == "golden_small.jsonl"


def test_links_in_a_circle_pipes_and_names_that_can_not_be_printed_are_passed_over(tmp_path: Path) -> None:
    for name in ("rag\x1b[31m.py", "a\nb.py", "c\u202e.py", os.fsdecode(b"\xff.py")):
        (tmp_path / name).write_text(ANSWER, encoding="utf-8")
    (tmp_path / "circle").symlink_to("..")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "golden.jsonl").symlink_to("golden.jsonl")
    os.mkfifo(tmp_path / "golden_pipe.jsonl")
    found = survey(tmp_path, ports=())
    assert found.proposals == ()
    assert found.golden is None
