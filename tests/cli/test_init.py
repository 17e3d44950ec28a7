"""`ragstone init` as a new user meets it: in folders as people have them, with the commands run that it prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.project import ragstone
from tests.cli.terminal import on_terminal

RAG = """
import json

def answer(question):
    samples = [json.loads(line) for line in open("golden/golden.jsonl")]
    facts = [sample["reference"] for sample in samples if "reference" in sample]
    known = [sample.get("reference") for sample in samples if sample["question"] == question]
    return {"answer": known[0] or "I don't know.", "contexts": [known[0] or facts[0], *facts[:2]]}
"""
# A system that knows all answers of the starter golden set.


def git_init(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


def config(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((path / "ragstone.toml").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("processes")
def test_a_new_user_runs_what_is_printed_as_it_is_printed(tmp_path: Path) -> None:
    shop = git_init(tmp_path / "shop")
    (shop / "rag.py").write_text(RAG)
    screen = on_terminal(["init"], shop, columns=80, answers="\n")  # takes the proposal
    assert screen.code == 0, screen.text
    assert max(map(len, screen.lines)) <= 80
    assert f"In {shop}:" in " ".join(screen.text.split()) or f"In {shop}:" in screen.text
    assert "answer in rag.py" in " ".join(screen.text.split())
    printed = re.findall(r"^  (ragstone \w+)", screen.text, re.MULTILINE)
    assert printed == ["ragstone check", "ragstone gate"]
    for line in printed:
        done = ragstone(line.split()[1:], shop, exit_code=0)
        assert "too small to detect" not in done.stdout
    status = subprocess.run(["git", "status", "--short"], cwd=shop, capture_output=True, text=True, check=True).stdout
    assert "ragstone-run" not in status


def test_a_system_called_as_in_the_docs_is_not_taken_for_a_placeholder(tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "rag.py").write_text(RAG)
    first = ragstone(["init"], tmp_path)
    assert "found  entrypoint python:my_package.rag:answer" in first.stdout
    assert "entrypoint in ragstone.toml" not in first.stdout
    assert "entrypoint yet" not in ragstone(["init"], tmp_path).stdout
    assert ragstone(["check"], tmp_path).returncode == 0


@pytest.mark.usefixtures("processes")
def test_the_prompt_takes_another_entrypoint(tmp_path: Path) -> None:
    (tmp_path / "rag.py").write_text(RAG)
    screen = on_terminal(["init"], tmp_path, columns=80, answers="command:./rag --json\n")
    assert screen.code == 0, screen.text
    assert config(tmp_path)["system"]["entrypoint"] == "command:./rag --json"


@pytest.mark.usefixtures("processes")
def test_a_folder_named_on_the_command_line_is_where_the_printed_commands_run(tmp_path: Path) -> None:
    (tmp_path / "my shop").mkdir()
    (tmp_path / "my shop" / "rag.py").write_text(RAG)
    done = ragstone(["init", "my shop"], tmp_path)
    assert f"In {tmp_path / 'my shop'}:" in done.stdout
    script = "\n".join(re.findall(r"^  (cd .*|ragstone check)", done.stdout, re.MULTILINE))
    assert script.startswith("cd 'my shop'")
    ran = subprocess.run(
        ["sh", "-ec", f'ragstone() {{ "{sys.executable}" -m ragstone "$@"; }}\n{script}'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("arguments", [(), ("--judge", "openai:gpt-5.4-mini")], ids=["offline", "llm"])
def test_plan_gives_numbers_that_can_be_reached_under_the_policy_of_init(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ragstone(["init"], tmp_path)
    env = {"RAGSTONE_JUDGE": arguments[1]} if arguments else {}
    done = ragstone(["plan"], tmp_path, env=env, exit_code=0)
    assert "no number of samples" not in done.stdout
    assert "the current 20 samples detect a drop of 0.2" in done.stdout
    assert re.search(r"With \d+ more samples?, a drop of 0\.2 is detected\.", done.stdout)


def test_the_golden_set_of_the_folder_is_named(tmp_path: Path) -> None:
    lines = [json.dumps({"query": f"Why {n}?", "ground_truth": f"So {n}."}) for n in range(400)]
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "qa.jsonl").write_text("\n".join(lines))
    done = ragstone(["init", "--entrypoint", "python:rag:answer"], tmp_path)
    assert "found  golden set eval/qa.jsonl: 400 samples" in done.stdout
    assert "question from 'query', reference from 'ground_truth'" in done.stdout
    assert config(tmp_path)["golden"]["paths"] == ["eval/qa.jsonl"]
    assert not (tmp_path / "golden").exists()


@pytest.mark.parametrize("line", ["ragstone-run/", "/ragstone-run", "ragstone-run", "**/ragstone-run/"])
def test_gitignore_gets_the_line_once(tmp_path: Path, line: str) -> None:
    repo = git_init(tmp_path)
    (repo / ".gitignore").write_bytes(b"*.pyc\r\nbuild")
    assert "added  ragstone-run/ to .gitignore" in ragstone(["init"], repo).stdout
    assert (repo / ".gitignore").read_bytes() == b"*.pyc\r\nbuild\r\nragstone-run/\r\n"
    assert "added" not in ragstone(["init"], repo).stdout
    (repo / ".gitignore").write_text(f"{line}\n")
    ragstone(["init"], repo)
    assert (repo / ".gitignore").read_text() == f"{line}\n"


def test_gitignore_is_not_made_outside_git_nor_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    ragstone(["init"], tmp_path / "plain")
    assert not (tmp_path / "plain" / ".gitignore").exists()
    repo = git_init(tmp_path / "repo")
    (tmp_path / "theirs").write_text("x\n")
    (repo / ".gitignore").symlink_to(tmp_path / "theirs")
    done = ragstone(["init"], repo, exit_code=2)
    assert "it is a link, and nothing is written through links" in done.stderr
    assert (tmp_path / "theirs").read_text() == "x\n"


def test_in_a_subfolder_of_a_repository_the_workflow_goes_to_its_root(tmp_path: Path) -> None:
    repo = git_init(tmp_path)
    (repo / ".gitignore").write_text("/ragstone-run/\n")  # the root's own, not the subfolder's
    (repo / "services" / "rag").mkdir(parents=True)
    done = ragstone(["init", "services/rag"], repo)
    assert "wrote  ../../.github/workflows/ragstone.yml" in done.stdout
    workflow = yaml.safe_load((repo / ".github" / "workflows" / "ragstone.yml").read_text())
    assert workflow["jobs"]["gate"]["steps"][1]["with"]["config"] == "services/rag/ragstone.toml"
    assert (repo / "services" / "rag" / ".gitignore").read_text() == "ragstone-run/\n"


def workflow(root: Path, name: str = "ragstone.yml") -> dict[str, Any]:
    """The inputs of the action in a workflow."""
    found = yaml.safe_load((root / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    inputs: dict[str, Any] = found["jobs"]["gate"]["steps"][1]["with"]
    return inputs


def test_a_second_service_of_a_repository_gets_a_workflow_of_its_own(tmp_path: Path) -> None:
    repo = git_init(tmp_path)
    ragstone(["init", "services/search"], repo)
    assert workflow(repo) == {"config": "services/search/ragstone.toml"}
    path = repo / ".github" / "workflows" / "ragstone.yml"
    path.write_text(path.read_text().replace("timeout-minutes: 30", "timeout-minutes: 45"))
    before = path.read_bytes()
    for service in ("billing", "docs"):
        name = f"ragstone-services-{service}.yml"
        done = ragstone(["init", f"services/{service}"], repo)
        assert f"wrote  ../../.github/workflows/{name}" in done.stdout
        assert workflow(repo, name) == {
            "config": f"services/{service}/ragstone.toml",
            "comment-id": f"services-{service}",
        }
        document = yaml.safe_load((path.parent / name).read_text())
        assert document["name"] == f"RAG quality of services-{service}"
        # On main it always runs: its runs there are the baseline.
        events = document[True]
        assert events["pull_request"]["paths"] == [f"services/{service}/**", f".github/workflows/{name}"]
        assert "paths" not in events["push"]
    assert path.read_bytes() == before
    files = {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    for service in ("search", "billing", "docs"):
        assert "wrote" not in ragstone(["init", f"services/{service}"], repo).stdout
    assert {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()} == files


def test_services_of_one_name_and_one_at_the_root_are_told_apart(tmp_path: Path) -> None:
    repo = git_init(tmp_path / "shop")
    ragstone(["init"], repo)
    for service in ("eu/rag", "us/rag"):
        ragstone(["init", service], repo)
    assert workflow(repo)["config"] == "ragstone.toml"
    assert workflow(repo, "ragstone-eu-rag.yml") == {"config": "eu/rag/ragstone.toml", "comment-id": "eu-rag"}
    assert workflow(repo, "ragstone-us-rag.yml") == {"config": "us/rag/ragstone.toml", "comment-id": "us-rag"}


def test_a_workflow_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    repo = git_init(tmp_path)
    path = repo / ".github" / "workflows" / "ragstone.yml"
    path.parent.mkdir(parents=True)
    path.write_text("on: push\njobs: {}\n")
    done = ragstone(["init", "services/rag"], repo)
    assert "kept   ../../.github/workflows/ragstone.yml" in done.stdout
    assert path.read_text() == "on: push\njobs: {}\n"


def test_the_workflow_installs_what_the_system_needs_for_the_python_of_its_environment(tmp_path: Path) -> None:
    repo = git_init(tmp_path)
    service = repo / "services" / "rag"
    (service / ".venv" / "bin").mkdir(parents=True)
    (service / ".venv" / "bin" / "python").touch()
    (service / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    (service / "rag.py").write_text(RAG)
    (repo / "pyproject.toml").write_text("[tool.ruff]\n")
    ragstone(["init", "services/rag"], repo)
    # Without a requested environment, the container would look for .venv/bin/python, which is not in the checkout.
    assert config(service)["system"]["python"] == ".venv/bin/python"
    assert workflow(repo) == {"config": "services/rag/ragstone.toml", "python-version": "3.12"}
    for name, text in (("pyproject.toml", "[project]\n"), ("requirements.txt", ""), ("services/rag/pylock.toml", "")):
        (repo / name).write_text(text)
        (repo / ".github" / "workflows" / "ragstone.yml").unlink()
        ragstone(["init", "services/rag"], repo)
        assert workflow(repo)["requirements"] == name


def test_a_notebook_gets_a_module_that_can_be_checked_at_once(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": [f"%matplotlib inline\n{RAG}"]}]
    (tmp_path / "my demo.ipynb").write_text(json.dumps({"cells": cells}))
    done = ragstone(["init"], tmp_path)
    assert "wrote  ragstone_entry.py" in done.stdout
    assert config(tmp_path)["system"]["entrypoint"] == "python:ragstone_entry:answer"
    ragstone(["check"], tmp_path, exit_code=0)


def test_what_is_not_known_is_said_with_the_line_to_edit(tmp_path: Path) -> None:
    route = "@app.post('/ask')\ndef ask(): return {'words': rag(request.json['question'])}\n"
    (tmp_path / "main.py").write_text(f"app = FastAPI()\n{route}")
    done = ragstone(["init"], tmp_path)
    assert 'to do  which field of its reply is the answer: set answer_field = "words"' in done.stdout


def test_services_of_a_repository_and_keys_to_add_are_named(tmp_path: Path) -> None:
    for service in ("search", "billing"):
        (tmp_path / "services" / service).mkdir(parents=True)
        (tmp_path / "services" / service / "Dockerfile").touch()
    (tmp_path / "rag.py").write_text(f"import os\nkey = os.environ['SHOP_API_KEY']\n{RAG}")
    done = ragstone(["init"], tmp_path)
    assert "found  2 services: services/billing, services/search; run `ragstone init FOLDER`" in done.stdout
    assert "add SHOP_API_KEY to the secrets of the repository" in done.stdout


def test_how_far_the_judge_agrees_with_people_is_said(tmp_path: Path) -> None:
    done = ragstone(["init"], tmp_path)
    assert re.search(r"judge  offline, .*agrees with people: .*faithfulness 0\.\d+", done.stdout)


def test_code_in_src_gets_its_folder_and_the_interpreter_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "src" / "shop" / "rag.py").write_text(RAG)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    ragstone(["init"], tmp_path)
    system = config(tmp_path)["system"]
    assert system["entrypoint"] == "python:shop.rag:answer"
    assert (system["working_directory"], system["python"]) == ("src", ".venv/bin/python")


def test_that_nothing_was_found_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text("def total(prices): ...\n")
    done = ragstone(["init"], tmp_path)
    assert "found  no entrypoint: nothing in the source takes a question" in done.stdout
    assert "found  no golden set: no file with a name such as golden, eval or qa" in done.stdout
    (tmp_path / "rag.py").write_text(RAG)
    done = ragstone(["init"], tmp_path)
    assert "found  no" not in done.stdout


def test_the_workflow_shows_a_path_filter_that_works_when_it_is_uncommented(tmp_path: Path) -> None:
    ragstone(["init"], tmp_path)
    text = (tmp_path / ".github" / "workflows" / "ragstone.yml").read_text()
    assert yaml.safe_load(text)[True]["pull_request"] == {"branches": ["main"]}
    assert "required check" in text
    filtered = yaml.safe_load(text.replace("# paths:", "paths:"))[True]["pull_request"]["paths"]
    assert {"golden/**", ".github/workflows/ragstone.yml"} <= set(filtered)


def test_names_in_the_folder_can_write_no_settings_and_no_control_sequences(tmp_path: Path) -> None:
    (tmp_path / 'x"]\n[judge]\nname = "y.py').write_text("def answer(question): ...\n")
    (tmp_path / "golden\x1b[31m.csv").write_text("question,reference\nWhy?,So.\n")
    (tmp_path / 'qa"].csv').write_text("question,reference\nWhy?,So.\n")
    done = ragstone(["init"], tmp_path, exit_code=0)
    assert "\x1b" not in done.stdout
    written = config(tmp_path)
    assert written["judge"]["name"] == "offline"
    assert written["golden"]["paths"] == ['qa"].csv']
    assert written["system"]["entrypoint"] == "python:my_package.rag:answer"


def test_a_second_init_keeps_all_and_says_what_is_left_to_do(tmp_path: Path) -> None:
    ragstone(["init"], tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "rag.py").write_text(RAG)
    done = ragstone(["init"], tmp_path)
    assert 'set entrypoint = "python:rag:answer" under [system]' in done.stdout
    assert "replace the questions in golden/golden.jsonl" in done.stdout
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.heavy
def test_after_a_first_run_init_writes_floors_that_the_system_clears(tmp_path: Path) -> None:
    (tmp_path / "rag.py").write_text(RAG)
    ragstone(["init"], tmp_path)
    policy = tmp_path / "thresholds.toml"
    assert "metrics" not in tomllib.loads(policy.read_text())
    assert "floors" not in ragstone(["init"], tmp_path).stdout, "there is no run yet"
    ragstone(["gate"], tmp_path)
    again = ragstone(["init"], tmp_path, exit_code=0)
    assert "floors thresholds.toml, from the run in ragstone-run" in again.stdout
    rules = tomllib.loads(policy.read_text())["metrics"]
    assert rules
    for metric, rule in rules.items():
        assert f"{metric} {rule['min']:.2f} (measured" in again.stdout
    shown = policy.read_text()
    assert "asked once, so 4 of 10 answers are assumed to change" in " ".join(shown.split())
    gated = ragstone(["gate", "--verbose"], tmp_path)
    assert "below the floor" not in gated.stdout
    policy.write_text(shown + "# mine\n")
    assert "floors" not in ragstone(["init"], tmp_path).stdout, "what was written stays"
    assert policy.read_text() == shown + "# mine\n"
