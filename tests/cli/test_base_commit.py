"""`ragstone gate --baseline-commit`: real git repositories, and both versions of the system asked in one job."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import (
    BROKEN,
    LINES_OFF,
    ONE_DROP,
    SYSTEM,
    Completed,
    append,
    commit,
    git,
    make_project,
    ragstone,
    read_json,
    start,
)

# Without the lines below which any policy fails a metric: both versions of these systems answer badly.
POLICY = LINES_OFF + ONE_DROP


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_project(tmp_path_factory.mktemp("original") / "project", n=20, policy=POLICY)
    (path / ".gitignore").write_text("ragstone-run*\n", encoding="utf-8")
    git(path, "init", "--quiet", "--initial-branch", "main")
    commit(path, "base")
    return path


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    """A repository with one commit, of a good system."""
    path = tmp_path / "project"
    shutil.copytree(original, path)
    return path


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the commands put their temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    return path


def gate(path: Path, temporary: Path, *arguments: str, exit_code: int | None = None, **env: str) -> Completed:
    variables = {"TMPDIR": str(temporary), **env}
    return ragstone(["gate", "--verbose", *arguments], path, env=variables, exit_code=exit_code)


def manifest(folder: Path) -> Any:
    return read_json(folder / "manifest.json")


def nothing_left(project: Path, temporary: Path) -> bool:
    return not list(temporary.iterdir()) and len(git(project, "worktree", "list").splitlines()) == 1


def test_a_change_is_compared_with_the_commit_before_it_asked_in_the_same_job(project: Path, temporary: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    head = commit(project, system=BROKEN)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=1)
    said = " ".join(found.stdout.split())
    assert f"compared with commit {base[:12]}, asked in the same job on all 20 samples" in said
    run = project / "ragstone-run"
    assert manifest(run)["system"]["commit"] == head
    assert manifest(run)["baseline"]["used"]["commit"] == base
    assert manifest(run / "base-commit")["system"]["commit"] == base
    assert nothing_left(project, temporary)
    again = gate(project, temporary, "--baseline-commit", "main", "--out", "ragstone-run-2", exit_code=0)
    assert "any difference is noise" in " ".join(again.stdout.split())


@pytest.mark.heavy
def test_check_asks_the_commits_system_too(project: Path, temporary: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    good = ragstone(["check", "--baseline-commit", "HEAD"], project, env={"TMPDIR": str(temporary)}, exit_code=0)
    assert f"baseline     commit {base[:12]}, asked in the same job: answered 'house-0'" in good.stdout
    bad = commit(project, system="def answer(question):\n    raise ValueError('no')\n")
    (project / "houses.py").write_text(SYSTEM, encoding="utf-8")
    found = ragstone(["check", "--baseline-commit", "HEAD"], project, env={"TMPDIR": str(temporary)}, exit_code=4)
    assert f"commit {bad[:12]}" in found.stderr
    assert nothing_left(project, temporary)


@pytest.mark.heavy
def test_a_run_of_the_base_commit_is_no_baseline_later_and_goes_with_the_next_run(
    project: Path, temporary: Path
) -> None:
    assert gate(project, temporary, "--baseline-commit", "HEAD").returncode == 0
    refused = gate(project, temporary, "--baseline", "ragstone-run/base-commit", "--out", "ragstone-run-2", exit_code=6)
    assert "made for one comparison only" in refused.stderr
    shown = ragstone(["report", "ragstone-run"], project)
    assert "asked in the same job" in shown.stdout.replace("\n", " ")
    assert gate(project, temporary).returncode == 0
    assert not (project / "ragstone-run" / "base-commit").exists()


@pytest.mark.heavy
def test_changes_that_are_not_committed_are_asked_and_named(project: Path, temporary: Path) -> None:
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    found = gate(project, temporary, "--baseline-commit", "HEAD", exit_code=1)
    assert "changes that are not committed" in found.stdout


@pytest.mark.heavy
def test_the_golden_set_is_the_current_one_and_the_systems_settings_are_the_commits_own(
    project: Path, temporary: Path
) -> None:
    (project / "houses.py").rename(project / "cottages.py")
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    (project / "ragstone.toml").write_text(config.replace("houses", "cottages"), encoding="utf-8")
    line = {"id": "new", "question": "What is the colour of house number 77?", "reference": "It is painted blue."}
    append(project / "golden.jsonl", json.dumps(line) + "\n")
    commit(project)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=0)
    assert manifest(project / "ragstone-run" / "base-commit")["system"]["entrypoint"] == "python:houses:answer"
    assert manifest(project / "ragstone-run")["system"]["entrypoint"] == "python:cottages:answer"
    assert "on all 21 samples" in found.stdout.replace("\n", " ")


@pytest.mark.heavy
def test_a_config_in_a_folder_and_a_relative_interpreter(project: Path, temporary: Path) -> None:
    service = project / "service"
    service.mkdir()
    for name in ("golden.jsonl", "houses.py", "thresholds.toml", "ragstone.toml"):
        git(project, "mv", name, f"service/{name}")
    commit(project)
    (service / ".venv").mkdir()
    (service / ".venv" / "python").symlink_to(sys.executable)
    (service / "houses.py").write_text(BROKEN, encoding="utf-8")
    found = gate(service, temporary, "--baseline-commit", "HEAD", RAGSTONE_PYTHON=".venv/python", exit_code=1)
    assert "20 of 20 questions got worse" in " ".join(found.stdout.split())


@pytest.mark.heavy
def test_commands_run_in_the_worktree(project: Path, temporary: Path) -> None:
    (project / "rag.py").write_text(
        "import json, sys\nfrom houses import answer\n"
        "for line in sys.stdin:\n    print(json.dumps(answer(json.loads(line)['question'])), flush=True)\n",
        encoding="utf-8",
    )
    commit(project)
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    by_name = f"command:{sys.executable} rag.py"
    assert gate(project, temporary, "--baseline-commit", "HEAD", "--entrypoint", by_name).returncode == 1
    absolute = f"command:{sys.executable} {project / 'rag.py'}"
    refused = gate(project, temporary, "--baseline-commit", "HEAD", "--entrypoint", absolute, exit_code=2)
    assert "is in the current checkout" in refused.stderr


@pytest.mark.heavy
def test_a_base_that_imports_the_current_code_is_refused(project: Path, temporary: Path, tmp_path: Path) -> None:
    """As with a package of a src folder that is installed in editable mode."""
    package = project / "src" / "lodge"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SYSTEM, encoding="utf-8")
    commit(project, system="from lodge import answer\n")
    assert gate(project, temporary, "--baseline-commit", "HEAD", PYTHONPATH=str(project / "src")).returncode == 0
    link = tmp_path / "elsewhere"
    link.symlink_to(project / "src")
    found = gate(project, temporary, "--baseline-commit", "HEAD", PYTHONPATH=str(link), exit_code=4)
    assert "imports 'lodge' from the current checkout" in found.stderr
    assert "name that run with --baseline" in found.stderr


def test_a_commit_that_does_not_start_is_named_and_nothing_is_written(project: Path, temporary: Path) -> None:
    bad = commit(project, system="import no_such_module\n")
    commit(project, system=SYSTEM)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=4)
    assert f"the system at the base, commit {bad[:12]}" in found.stderr
    assert not (project / "ragstone-run").exists()
    assert nothing_left(project, temporary)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fails", "code", "says"),
    [
        ("question", 4, "it gave no answer at all"),
        ("question.endswith(('1?', '2?'))", 0, "failed on 4 of 20 samples"),
    ],
)
def test_a_base_without_any_answer_is_an_error_and_one_with_some_is_named(
    project: Path, temporary: Path, fails: str, code: int, says: str
) -> None:
    failing = SYSTEM.replace("    fact = ", f"    if {fails}: raise ValueError(1)\n    fact = ")
    commit(project, system=failing)
    commit(project, system=SYSTEM)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=code)
    assert says in " ".join((found.stdout + found.stderr).split())


@pytest.mark.heavy
@pytest.mark.attack(
    by="pull request",
    tries="with `baseline: commit`, starve the base, so that it fails where the change is bad",
    stopped_by="exit code 6 if less than `min_paired` can be compared",
)
def test_a_base_that_is_starved_blocks(project: Path, temporary: Path) -> None:
    failing = SYSTEM.replace(
        "    fact = ",
        '    if not question.endswith(("1?", "2?")): raise TimeoutError("no connection left")\n    fact = ',
    )
    commit(project, system=failing)
    commit(project, system=BROKEN)
    lenient = POLICY.replace("[gate]\n", '[gate]\ninconclusive = "pass"\n')
    (project / "thresholds.toml").write_text(lenient, encoding="utf-8")
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", "--fail-on", "never")
    said = " ".join((found.stdout + found.stderr).split())
    assert found.returncode == 6, said
    assert "Only 4 of 20 samples of the baseline can be compared (20 %, required 80 %)" in said
    assert "the system of the base commit failed on 16" in said
    assert "ragstone accept" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--baseline-commit", "nowhere"], 6, "git knows no commit 'nowhere'"),
        (["--baseline-commit", "--upload-pack=x"], 6, "git knows no commit"),
        (["--baseline-commit", "HEAD", "--baseline", "ragstone-run"], 2, "two baselines"),
        (
            ["--baseline-commit", "HEAD", "--entrypoint", "file:outputs.jsonl"],
            2,
            "--baseline-commit can't be combined with recorded answers",
        ),
        (["--baseline-commit", "HEAD", "--entrypoint", "http://127.0.0.1:9/"], 2, "the same address"),
    ],
)
def test_what_can_not_be_compared_is_an_error(
    project: Path, temporary: Path, arguments: list[str], code: int, said: str
) -> None:
    found = gate(project, temporary, *arguments, exit_code=code)
    assert said in found.stderr
    assert nothing_left(project, temporary)


def test_outside_of_a_repository_it_says_so(tmp_path: Path, temporary: Path) -> None:
    found = gate(
        make_project(tmp_path / "plain", n=5),
        temporary,
        "--baseline-commit",
        "HEAD",
        GIT_CEILING_DIRECTORIES=str(tmp_path),
    )
    assert found.returncode == 2
    assert "is not in a git repository" in found.stderr


@pytest.mark.heavy
def test_a_shallow_clone_is_told_what_to_fetch(project: Path, temporary: Path, tmp_path: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    commit(project, system=BROKEN)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "shallow")
    shallow = tmp_path / "shallow"
    found = gate(shallow, temporary, "--baseline-commit", base, exit_code=6)
    assert f"git fetch --depth=1 origin {base}" in found.stderr
    assert "fetch-depth: 0" in found.stderr
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", base)
    assert gate(shallow, temporary, "--baseline-commit", "FETCH_HEAD").returncode == 1


@pytest.mark.heavy
def test_submodules_are_checked_out_as_the_commit_has_them(project: Path, temporary: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    git(facts, "init", "--quiet", "--initial-branch", "main")
    (facts / "data.py").write_text(SYSTEM, encoding="utf-8")
    commit(facts)
    git(project, "submodule", "--quiet", "add", f"file://{facts}", "facts")
    commit(project, system="from facts.data import answer\n")
    then = git(project / "facts", "rev-parse", "HEAD")
    (project / "facts" / "data.py").write_text(BROKEN, encoding="utf-8")
    commit(project / "facts")
    commit(project)
    gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=1)
    assert nothing_left(project, temporary)
    assert len(git(project / "facts", "worktree", "list").splitlines()) == 1
    # A clone whose submodule has only the newest commit.
    git(tmp_path, "clone", "--quiet", f"file://{project}", "clone")
    git(tmp_path / "clone", "config", "submodule.facts.url", f"file://{project / 'facts'}")
    git(tmp_path / "clone", "submodule", "--quiet", "update", "--init", "--depth=1")
    found = gate(tmp_path / "clone", temporary, "--baseline-commit", "HEAD~1", exit_code=6)
    assert f"git -C facts fetch origin {then}" in found.stderr


@pytest.mark.heavy
def test_an_accepted_drop_is_in_force_in_the_next_job_and_spent_when_the_commit_has_it(
    project: Path, temporary: Path
) -> None:
    commit(project, system=BROKEN)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=1)
    accept = re.search(r"ragstone (accept .*?'why it is worth it')", " ".join(found.stdout.replace("\\", "").split()))
    assert accept is not None
    words = accept.group(1).replace("'why it is worth it'", "worth").split()
    assert ragstone(words, project).returncode == 0
    gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=0)
    commit(project)
    found = gate(project, temporary, "--baseline-commit", "HEAD")
    assert "is spent, because the baseline includes the change" in " ".join(found.stdout.split())


SLOW = SYSTEM.replace("def answer(question):", "def answer(question):\n    import time; time.sleep(0.5)")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.heavy)])
def test_a_run_that_is_interrupted_leaves_no_worktree_and_both_are_resumed(
    project: Path, temporary: Path, number: signal.Signals
) -> None:
    commit(project, system=SLOW)
    process = start(["gate", "--baseline-commit", "HEAD"], project, env={"TMPDIR": str(temporary)})
    run = project / "ragstone-run"
    files = [run / "samples.jsonl", run / "base-commit" / "samples.jsonl"]
    deadline = time.monotonic() + 60
    while not all(file.is_file() and file.stat().st_size for file in files) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors.decode()
    assert nothing_left(project, temporary)
    assert manifest(run)["state"] == manifest(run / "base-commit")["state"] == "stopped"
    before = [file.read_text(encoding="utf-8").splitlines() for file in files]
    assert all(0 < len(lines) < 20 for lines in before)
    (project / "note.txt").write_text("a commit that changes nothing", encoding="utf-8")
    commit(project)
    other = gate(project, temporary, "--baseline-commit", "HEAD", "--resume", exit_code=2)
    assert "can't resume: it was compared with commit" in other.stderr
    gate(project, temporary, "--baseline-commit", "HEAD~1", "--resume", exit_code=0)
    for file, lines in zip(files, before, strict=True):
        after = file.read_text(encoding="utf-8").splitlines()
        assert len(after) == 20
        assert set(lines) <= set(after)  # nothing was asked twice


@pytest.mark.heavy
def test_the_time_limit_ends_both(project: Path, temporary: Path) -> None:
    commit(project, system=SLOW.replace("0.5", "30"))
    gate(project, temporary, "--baseline-commit", "HEAD", "--time-limit", "3", exit_code=124)
    assert nothing_left(project, temporary)


@pytest.mark.usefixtures("processes")
def test_a_service_needs_a_second_address(project: Path, temporary: Path) -> None:
    serve = (
        "import json, sys\nfrom http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n"
        "from houses import answer\n"
        "class Handler(BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        reply = json.dumps(answer(body['question'])).encode()\n"
        "        self.send_response(200); self.send_header('Content-Length', str(len(reply))); self.end_headers()\n"
        "        self.wfile.write(reply)\n"
        "    def log_message(self, *_): pass\n"
        "server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(server.server_port, flush=True)\nserver.serve_forever()\n"
    )
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    (project / "good").mkdir()
    (project / "good" / "houses.py").write_text(SYSTEM, encoding="utf-8")
    servers = [
        subprocess.Popen([sys.executable, "-c", serve], cwd=folder, stdout=subprocess.PIPE, text=True)
        for folder in (project, project / "good")
    ]
    try:
        ports = [int(server.stdout.readline()) for server in servers if server.stdout is not None]
        current, other = (f"http://127.0.0.1:{port}/ask" for port in ports)
        same = ["--baseline-commit", "HEAD", "--entrypoint", current]
        gate(project, temporary, *same, RAGSTONE_BASELINE_ENTRYPOINT=other, exit_code=1)
        assert manifest(project / "ragstone-run" / "base-commit")["system"]["entrypoint"] == other
    finally:
        for server in servers:
            server.kill()
            server.communicate()
