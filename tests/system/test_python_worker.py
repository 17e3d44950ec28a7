"""python: entrypoints, through real worker processes that do what user code does."""

from __future__ import annotations

import ast
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system import child
from ragstone.system.response import Context, Response, SystemFailureKind, TokenUsage, ToolCall
from ragstone.system.worker import protocol
from ragstone.system.worker.join import MODULES, worker_source
from tests.processes import all_end
from tests.system.service import by_kind, failure, kinds

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals and fork")


def test_a_function_is_asked_and_its_whole_answer_comes_back(room: Any) -> None:
    contexts = ["one", {"text": "two", "id": "d2", "score": 0.5}]
    step = {"type": "tool", "name": "search", "arguments": {}}
    beside = {"contexts": contexts, "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "steps": [step]}
    room.app(f"def answer(question): return {{'answer': question.upper(), **{beside}}}")
    (response,) = room.ask("app:answer", "what?")
    assert (response.sample_id, response.answer, response.failure) == ("s0", "WHAT?", None)
    assert response.contexts == (Context("one"), Context("two", "d2", 0.5))
    assert (response.usage, response.steps) == (TokenUsage(3, 4), (ToolCall("search"),))
    assert response.latency_s is not None


def test_contexts_may_be_ids_alone_or_none_at_all(room: Any) -> None:
    room.app("""
        def answer(question):
            if question == "ids":
                return {"answer": "a", "retrieved_context_ids": ["d1"], "trace_id": "t"}
            return {"answer": "a", "contexts": [] if question == "empty" else None}
    """)
    ids, empty, without = room.ask("app:answer", "ids", "empty", "none")
    assert (ids.contexts, ids.extra) == ((Context("", "d1"),), {"trace_id": "t"})
    assert [response.contexts_returned for response in (ids, empty, without)] == [True, True, False]


def test_a_file_imports_its_neighbours_and_paths_start_in_the_working_directory(room: Any) -> None:
    (room.folder / "my-app").mkdir()
    room.write("my-app/neighbour.py", "WORD = 'hello'\n")
    source = "import neighbour, sys\ndef answer(q): return neighbour.WORD + open('data.txt').read() + sys.path[0]\n"
    room.write("my-app/rag.py", source)
    room.write("data.txt", "-root-")
    folder = room.folder.resolve() / "my-app"
    assert room.ask("my-app/rag.py:answer", "q")[0].answer == f"hello-root-{folder}"
    room.write("my-app/data.txt", "-folder-")
    assert room.ask("rag:answer", "q", working_directory="my-app")[0].answer == f"hello-folder-{folder}"


@posix
def test_hostile_use_of_descriptors_costs_only_its_sample(room: Any) -> None:
    room.app("""
        import os, time
        def answer(question):
            if question == "write into the channel":
                for fd in range(3, 10):
                    try: os.write(fd, b"9999999999garbage")
                    except OSError: pass
            if question == "leave a child with the pipes":
                if os.fork() != 0: os._exit(1)
                time.sleep(600)
            return "fine"
    """)
    questions = ["a", "write into the channel", "leave a child with the pipes", "b"]
    assert kinds(room.ask("app:answer", *questions, concurrency=1)) == ["answered", "crashed", "crashed", "answered"]


def test_prints_raw_writes_and_programs_go_to_the_log_and_not_into_the_answers(room: Any) -> None:
    room.app(r"""
        import os, subprocess, sys
        print("0000000002{}")
        def answer(question):
            print("printed é \ud800")
            os.write(1, b"0000000002{}")
            sys.__stdout__.write("dunder\n")
            subprocess.run([sys.executable, "-c", "print('from a program')"])
            sys.stderr.write("to stderr\n")
            return "clean"
    """)
    (room.folder / "hooks").mkdir()
    room.write("hooks/sitecustomize.py", "print('hello from site')\n")
    room.environ["PYTHONPATH"] = str(room.folder / "hooks")
    assert [r.answer for r in room.ask("app:answer", "a", "b")] == ["clean", "clean"]
    text = room.log.read_text(encoding="utf-8", errors="replace")
    for part in ("printed é", "0000000002{}", "dunder", "from a program", "to stderr", "hello from site"):
        assert part in text


@posix
@pytest.mark.filterwarnings("ignore")
def test_forked_children_of_user_code_never_answer_twice(room: Any) -> None:
    room.app("""
        import os
        def answer(question):
            pid = os.fork()
            if pid == 0:
                if question == "raises": raise RuntimeError("in the child")
                return "from the child"
            os.waitpid(pid, 0)
            return "parent of " + question
    """)
    answers = [r.answer for r in room.ask("app:answer", "a", "raises", "b", concurrency=1)]
    assert answers == ["parent of a", "parent of raises", "parent of b"]


@pytest.mark.heavy
def test_each_way_to_die_costs_the_sample_that_died_and_no_other(room: Any) -> None:
    room.app("""
        import ctypes, os, sys, time
        def answer(question):
            if question == "exit": os._exit(3)
            if question == "sys.exit": sys.exit(3)
            if question == "interrupt": raise KeyboardInterrupt
            if question == "raise": raise ValueError("wrong " + question)
            if question == "recurse": return answer(question)
            if question == "segfault": ctypes.string_at(0)

            if question == "hang": time.sleep(600)
            if question == "close": os.closerange(0, 100)
            if question == "close the channel": os.closerange(3, 64)
            if question == "nonsense": return object()
            if question == "input": return input()
            if question == "huge": return "x" * 10_000_001
            return "fine"
    """)
    raising = ["sys.exit", "interrupt", "raise", "recurse", "input"]
    crashing = ["exit", "segfault", "close", "close the channel"]
    questions = ["a", *raising, "b", *crashing, "hang", "c", "nonsense", "huge", "d"]
    responses = room.ask("app:answer", *questions, timeout_s=1, concurrency=2)
    assert by_kind(questions, responses) == {
        "answered": ["a", "b", "c", "d"],
        "raised": raising,
        "crashed": crashing,
        "timeout": ["hang"],
        "bad_return": ["nonsense", "huge"],
    }
    failures = {q: r.failure for q, r in zip(questions, responses, strict=True) if r.failure}
    assert failures["exit"].message == "The worker exited with status 3 while answering this question."
    assert failures["raise"].message == "ValueError: wrong raise"
    assert 'app.py", line ' in (failures["raise"].detail or "")
    assert "ragstone worker" not in (failures["raise"].detail or "")
    assert "SIGSEGV" in failures["segfault"].message

    assert failures["hang"].message == "No answer within 1 s."
    assert "in answer" in (failures["hang"].detail or "")
    assert "object object" in failures["nonsense"].message
    assert "10,000,001 characters; at most 1,000,000 are read" in failures["huge"].message
    assert "EOFError" in failures["input"].message
    assert "Has your system closed file descriptors" in (failures["close the channel"].detail or "")


@posix
def test_a_hanging_coroutine_shows_where_it_waits(room: Any) -> None:
    room.app("""
        import asyncio
        async def inner(): await asyncio.sleep(600)
        async def answer(question): await inner()
    """)
    found = failure(room.ask("app:answer", "q", timeout_s=0.3)[0])
    assert found.kind is SystemFailureKind.TIMEOUT
    assert "in inner" in (found.detail or "")


@posix
def test_a_worker_that_ignores_signals_is_killed_with_all_its_children(room: Any) -> None:
    room.app("""
        import signal, subprocess, sys, time
        for name in ("SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        def answer(question):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open("pid", "w").write(str(child.pid))
            time.sleep(600)
    """)
    assert failure(room.ask("app:answer", "q", timeout_s=1)[0]).kind is SystemFailureKind.TIMEOUT
    assert all_end([int((room.folder / "pid").read_text())])


def test_a_worker_killed_while_idle_costs_no_sample(room: Any) -> None:
    room.app("import os\ndef answer(q): return str(os.getpid())\n")

    async def scenario() -> tuple[Response, Response]:
        async with room.started("app:answer", concurrency=1) as system:
            first = await system.ask(Sample("a", "q"))
            os.kill(int(first.answer), signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            assert all_end([int(first.answer)])
            await asyncio.sleep(0.1)
            return first, await system.ask(Sample("b", "q"))

    first, second = asyncio.run(scenario())
    assert second.failure is None
    assert second.answer != first.answer


def test_a_cancelled_question_does_not_answer_the_next_one(room: Any) -> None:
    room.app("import time\ndef answer(q):\n    time.sleep(600 if q == 'slow' else 0)\n    return q\n")

    async def scenario() -> Response:
        async with room.started("app:answer", concurrency=1) as system:
            task = asyncio.create_task(system.ask(Sample("a", "slow")))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            response: Response = await system.ask(Sample("b", "next"))
            return response

    assert asyncio.run(scenario()).answer == "next"


def test_closing_while_questions_are_asked_ends_everything(room: Any) -> None:
    room.app("import os, time\ndef answer(q):\n    open(q, 'w').write(str(os.getpid()))\n    time.sleep(600)\n")

    async def scenario() -> list[Response]:
        async with room.started("app:answer", concurrency=2) as system:
            tasks = [asyncio.create_task(system.ask(Sample(name, name))) for name in ("a", "b", "c")]
            while not ((room.folder / "a").exists() and (room.folder / "b").exists()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await system.close()
        return list(await asyncio.gather(*tasks))

    assert all(r.failure is not None for r in asyncio.run(scenario()))
    for name in ("a", "b"):
        assert all_end([int((room.folder / name).read_text())])


def test_an_import_that_never_ends_is_given_up_with_its_stack(room: Any) -> None:
    room.app("import time\nprint('loading the index')\ntime.sleep(600)\n")
    with pytest.raises(SystemUnderTestError, match=r"not ready after 1\.5 s") as caught:
        room.ask("app:answer", "q", startup_timeout_s=1.5)
    assert "loading the index" in str(caught.value)
    if sys.platform != "win32":
        assert 'app.py", line 3' in str(caught.value)


def test_an_import_error_is_shown_once_with_the_users_traceback(room: Any) -> None:
    room.app("import deeper\n")
    room.write("deeper.py", "def load():\n    raise KeyError('INDEX_PATH')\nload()\n")
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask("app:answer", "a", "b")
    text = str(caught.value)
    assert text.count("Traceback") == 1
    assert 'deeper.py", line 2, in load' in text
    assert "ragstone worker" not in text
    assert "importlib" not in text


@pytest.mark.parametrize(
    ("source", "entrypoint", "says"),
    [
        ("def answer(q): return q", "app:anser", "Did you mean 'answer'?"),
        ("def answer(q): return q", "ap:answer", "no module named 'ap'"),
        ("import not_installed_anywhere", "app:answer", "No module named 'not_installed_anywhere'"),
        ("def answer(question, index): return question", "app:answer", "can't be called with one question"),
        ("class Rag:\n    def __init__(self): raise OSError('no index')", "app:Rag", "OSError: no index"),
        ("def answer(:", "app:answer", "SyntaxError"),
        ("import os; os._exit(5)", "app:answer", "the worker exited with status 5 while starting"),
        ("", "missing.py:answer", "file not found"),
        ("", "inner/json.py:answer", "another module is called 'json'"),
    ],
)
def test_a_system_that_can_not_start_says_why(room: Any, source: str, entrypoint: str, says: str) -> None:
    room.app(source + "\n")
    (room.folder / "inner").mkdir()
    room.write("inner/json.py", "def answer(q): return q")
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask(entrypoint, "q")
    assert says in str(caught.value)
    assert str(room.folder) in str(caught.value)


def test_a_megabyte_of_log_is_kept_and_more_is_bounded(room: Any, monkeypatch: Any) -> None:
    room.app("def answer(q):\n    print('x' * 1_000_000)\n    return 'done'\n")
    assert room.ask("app:answer", "q")[0].answer == "done"
    assert room.log.stat().st_size >= 1_000_000
    monkeypatch.setattr(child, "MAX_LOG_BYTES", 50_000)
    room.log.unlink()
    assert [r.answer for r in room.ask("app:answer", "a", "b")] == ["done", "done"]
    assert room.log.stat().st_size < 51_000
    assert "reached its limit" in room.log.read_text()


def test_any_question_arrives_as_it_is_and_any_answer_comes_back_whole(room: Any) -> None:
    room.app("""
        def answer(question):
            if question == "large": return {"answer": "é" * 1_000_000, "contexts": ["c"] * 9_999}
            return {"answer": question, "contexts": ["\\ud800", "\\0"]}
    """)
    question = "ünï ☃ 𝔘 \u2028 \x00 \r\n \ud800 end"
    response, large = room.ask("app:answer", question, "large")
    assert (response.answer, response.contexts[1].text) == (question.replace("\ud800", "\ufffd"), "\0")
    assert (len(large.answer), len(large.contexts)) == (1_000_000, 9_999)


@pytest.mark.usefixtures("processes")
@posix
@pytest.mark.parametrize("entrypoint", ["app:answer", f"command:{sys.executable} app.py"])
def test_killing_ragstone_leaves_no_orphans(room: Any, entrypoint: str) -> None:
    room.app("""
        import os, subprocess, sys, time
        def answer(question):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open("pids", "w").write(f"{os.getpid()} {child.pid}")
            while True: pass
        if __name__ == "__main__":
            answer(input())
    """)
    gate = "import sys, pathlib\nfrom tests.system.conftest import Room\nRoom(pathlib.Path.cwd()).ask(sys.argv[1], 'q')"
    environ = {**room.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", gate, entrypoint], env=environ, cwd=room.folder)
    pids = room.folder / "pids"
    try:
        while not (pids.exists() and len(pids.read_text().split()) == 2):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert all_end([int(pid) for pid in pids.read_text().split()])


def test_user_code_may_use_processes_and_threads_of_its_own(room: Any) -> None:
    room.app("""
        import asyncio, concurrent.futures, multiprocessing

        def square(number):
            print("squaring", number)
            return number * number

        def answer(question):
            if question == "threads":
                async def main(): return await asyncio.to_thread(square, 3)
                return str(asyncio.run(main()))
            context = multiprocessing.get_context(question)
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                return str(pool.submit(square, 3).result())
    """)
    methods = ["threads", "spawn"] if sys.platform == "win32" else ["threads", "spawn", "fork"]
    assert [r.answer for r in room.ask("app:answer", *methods, concurrency=1)] == ["9"] * len(methods)


def test_the_worker_is_one_source_for_python_3_8_with_nothing_but_the_standard_library() -> None:
    tree = ast.parse(worker_source(), feature_version=(3, 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name) or ""
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    defined = _defined_names(tree)
    assert len(defined) == len(set(defined)), "the modules share one namespace"
    folder = Path(protocol.__file__).parent
    modules = [ast.parse((folder / f"{name}.py").read_text(encoding="utf-8")) for name in MODULES]
    assert sorted(defined) == sorted(["SYSTEM_NAMES", *(name for tree in modules for name in _defined_names(tree))])
    assert {path.stem for path in folder.glob("*.py")} == {*MODULES, "join", "__init__"}


def _defined_names(tree: ast.Module) -> list[str]:
    names = []
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign):
            names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return names


@pytest.mark.heavy
def test_the_worker_runs_in_every_python_found_here(room: Any) -> None:
    room.app("import sys\nclass Rag:\n    async def query(self, q):\n        return str(sys.version_info[:2])\n")
    ran = 0
    for minor in range(8, 15):
        python = shutil.which(f"python3.{minor}")
        if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
            continue
        assert room.ask("app:Rag", "q", python=python)[0].answer == f"(3, {minor})"
        ran += 1
    assert ran >= 1


@pytest.mark.usefixtures("processes")
def test_the_interpreter_is_the_one_asked_for_or_that_of_the_active_environment(room: Any, tmp_path: Path) -> None:
    room.app("import sys\ndef answer(q): return sys.prefix\n")
    made = tmp_path / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    assert room.ask("app:answer", "q")[0].answer == sys.prefix
    python = "made/Scripts/python.exe" if sys.platform == "win32" else "made/bin/python"
    assert room.ask("app:answer", "q", python=python)[0].answer == str(made)
    room.environ["VIRTUAL_ENV"] = str(made)
    assert room.ask("app:answer", "q")[0].answer == str(made)


@pytest.mark.attack(by="pull request", tries="patch the clock", stopped_by="the gate's own counts")
def test_latency_is_measured_by_a_clock_that_the_system_can_not_reach(room: Any) -> None:
    room.app("""
        import sys, time
        sleep = time.sleep
        for name in ("perf_counter", "monotonic", "time"):
            setattr(time, name, lambda: 0.0)
        for module in list(sys.modules.values()):  # and whatever took its own copy of them
            for name in ("perf_counter", "monotonic"):
                if hasattr(module, name):
                    setattr(module, name, lambda: 0.0)

        def answer(question):
            sleep(0.1)
            if question == "raise":
                raise KeyError(question)
            return question
    """)
    for response in room.ask("app:answer", "one", "raise", concurrency=1):
        assert response.latency_s is not None
        assert response.latency_s >= 0.1
