"""The workflows: ours, those in the documentation, and the one that `ragstone init` writes."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from ragstone.github.api.event import EventKind
from ragstone.github.inputs import INPUTS
from ragstone.github.outputs import OUTPUTS
from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
JOBS: dict[str, dict[str, Any]] = RELEASE["jobs"]
HARMLESS = ("attest", "checkout", "deploy-pages", "download-artifact", "upload-artifact")
"""Actions of GitHub's that may have a token that writes or signs."""

_SHA = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def examples() -> list[str]:
    """The workflows of GitHub in all pages: whole files."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    blocks = [block for text in texts for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    return [block for block in blocks if "\njobs:" in block and re.search(r"^on:", block, re.MULTILINE)]


def of_init(folder: Path) -> list[str]:
    """The workflows that `ragstone init` writes: for one system, and for services of a repository with several."""
    (folder / ".git").mkdir(parents=True)
    (folder / "requirements.txt").touch()
    environment = folder / "services" / "search" / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").touch()
    (environment / "pyvenv.cfg").write_text("version = 3.12.4\n", encoding="utf-8")
    composed = "services:\n  api:\n    build: .\n    ports: [8080:8000]\n"
    for service, entrypoint, name, content in (
        (".", "python:rag:answer", "notes.txt", ""),
        ("services/search", "python:rag:answer", "notes.txt", ""),
        ("my site", "http://127.0.0.1:3000/api/chat", "notes.txt", ""),
        ("compose", "http://127.0.0.1:8000/ask?v=1", "compose.yaml", composed),
        ("image", "http://localhost:8000/ask", "Dockerfile", "FROM scratch\nEXPOSE 80\n"),
        ("api", "http://127.0.0.1:8000/ask", "main.py", "app = FastAPI()\n"),
    ):
        home = folder / service
        home.mkdir(exist_ok=True)
        (home / name).write_text(content, encoding="utf-8")
        write_starter(home, Proposal(entrypoint, "it was named"), survey(home))
    return [path.read_text(encoding="utf-8") for path in sorted((folder / ".github" / "workflows").glob("*.yml"))]


def all_texts() -> list[Any]:
    with TemporaryDirectory() as folder:
        written = of_init(Path(folder))
    return [
        *(pytest.param(path.read_text(encoding="utf-8"), id=path.name) for path in OURS),
        *(pytest.param(text, id=f"example {n + 1}") for n, text in enumerate(examples())),
        *(pytest.param(text, id=f"init {number}") for number, text in enumerate(written)),
    ]


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job.get("steps", [])


def triggers(workflow: dict[Any, Any]) -> set[str]:
    on = workflow[True]  # YAML 1.1 reads the key `on` as a truth value
    return {on} if isinstance(on, str) else set(on)


@pytest.mark.parametrize("text", all_texts())
def test_a_workflow_names_each_right_leaves_no_credentials_and_uses_what_exists(text: str) -> None:
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    assert "write-all" not in str([job.get("permissions") for job in workflow["jobs"].values()])
    assert EventKind.PULL_REQUEST_TARGET not in triggers(workflow)
    for step in steps(workflow):
        action, given = step.get("uses", ""), step.get("with", {})
        if action.startswith("actions/checkout@"):
            assert given["persist-credentials"] is False
        if action == "./" or action.startswith("ragstone/ragstone@"):
            assert set(given) <= {spec.name for spec in INPUTS}
        if EventKind.WORKFLOW_RUN in triggers(workflow):
            assert "ref" not in given
            assert "run" not in step
    outputs = re.findall(r"steps\.(?:gate|ragstone)\.outputs\.([\w-]+)", text)
    assert set(outputs) <= OUTPUTS.keys()


@pytest.mark.attack(
    by="supply chain", tries="move a tag of an action or an image", stopped_by="pinned by commit and digest"
)
def test_our_own_actions_are_pinned_by_commit_and_images_by_digest() -> None:
    found: dict[str, set[str]] = {}
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        pins = [step["uses"] for step in steps(yaml.safe_load(text)) if step.get("uses", "./") != "./"]
        assert all(_SHA.fullmatch(pin) for pin in pins), path
        for pin, version in re.findall(r"uses: (\S+@[0-9a-f]{40}) # (v[\d.]+)", text):
            found.setdefault(pin.partition("@")[0], set()).add(f"{pin} {version}")
    assert all(len(versions) == 1 for versions in found.values()), found
    for name in ("QEMU_IMAGE", "BUILDKIT_IMAGE"):
        assert re.fullmatch(r"docker\.io/[\w/]+:[\w.-]+@sha256:[0-9a-f]{64}", RELEASE["env"][name])
    images = [step["with"]["image"] for each in JOBS.values() for step in used(each, "docker/setup-qemu-action")]
    assert images == ["${{ env.QEMU_IMAGE }}"] * 2
    (buildx,) = [step for each in JOBS.values() for step in used(each, "docker/setup-buildx-action")]
    assert buildx["with"]["driver-opts"] == "image=${{ env.BUILDKIT_IMAGE }}"


def runs(name: str) -> str:
    """All that the steps of a job of the release run."""
    return "\n".join(str(step.get("run", "")) for step in JOBS[name]["steps"])


def used(found: dict[str, Any], action: str) -> list[dict[str, Any]]:
    return [step for step in found["steps"] if str(step.get("uses", "")).startswith(f"{action}@")]


@pytest.mark.attack(
    by="supply chain", tries="scan another image than is pushed", stopped_by="one build, scanned by digest"
)
def test_the_image_that_is_scanned_is_the_one_that_is_pushed_and_only_then_named() -> None:
    push, pushes = JOBS["push"], runs("push")
    (build,) = used(JOBS["image"], "docker/build-push-action")
    assert build["with"]["outputs"] == "type=oci,dest=image.tar"
    platforms = [one.removeprefix("linux/") for one in build["with"]["platforms"].split(",")]
    scanned = [step["with"]["image"] for step in used(JOBS["scan"], "anchore/scan-action")]
    assert scanned == [f"docker-archive:{one}.tar" for one in platforms]
    assert f"for architecture in {' '.join(platforms)}; do" in runs("scan")
    assert set(push["needs"]) >= {"image", "scan"}
    downloads = [step for name in ("scan", "push") for step in used(JOBS[name], "actions/download-artifact")]
    assert [step["with"]["name"] for step in downloads] == ["image", "image", "sbom", "packages"]
    by_digest, by_tag = pushes.index('"docker://$IMAGE@$DIGEST"'), pushes.rindex('"docker://$IMAGE:$TAG"')
    assert pushes.index('= "$DIGEST"') < by_digest < by_tag


def test_images_and_packages_are_attested_before_they_get_a_tag_and_the_release_carries_all() -> None:
    push, publish = JOBS["push"], JOBS["publish"]
    assert push["permissions"]["id-token"] == "write"
    attested = used(push, "actions/attest")
    assert '"docker://$IMAGE:$TAG"' in push["steps"][-1]["run"]
    assert push["steps"].index(attested[-1]) < len(push["steps"]) - 1
    packages, *images = sorted((step["with"] for step in attested), key=lambda subject: "subject-path" not in subject)
    assert packages["subject-path"] == "dist/*"
    assert [subject["subject-digest"] for subject in images] == ["${{ needs.image.outputs.digest }}"] * 2
    names = " ".join(f'"${step["id"].upper()}"' for step in attested)
    assert f"cat {names} >attestations.jsonl" in runs("push")
    (downloaded,) = used(publish, "actions/download-artifact")
    made_by = {"packages": "package", "sbom": "scan", "attestations": "push"}
    assert set(downloaded["with"]["pattern"].strip("{}").split(",")) == set(made_by)
    assert set(publish["needs"]) >= set(made_by.values())
    for artifact, maker in made_by.items():
        assert artifact in [step["with"]["name"] for step in used(JOBS[maker], "actions/upload-artifact")]
    assert runs("publish").rstrip().endswith("released/*")


def test_what_decides_on_a_release_or_on_trust_has_owners() -> None:
    text = (ROOT / ".github" / "CODEOWNERS").read_text(encoding="utf-8")
    owned = [line.split()[0] for line in text.splitlines() if line and not line.startswith("#")]
    assert owned[0] == "*"
    assert {"/.github/", "/Dockerfile", "/scripts/", "/src/ragstone/github/"} <= set(owned)
    for pattern in owned[1:]:
        assert list(ROOT.glob(pattern.strip("/"))), pattern


@pytest.mark.attack(by="supply chain", tries="move a tag of Ragstone", stopped_by="no tag is ever moved")
def test_a_release_is_of_a_commit_of_main_made_once_and_no_tag_is_ever_moved() -> None:
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"--force|push -f|tag -f|:latest|:v\d+\"", text), path
    assert 'test -z "$(git ls-remote origin "refs/tags/$TAG")"' in runs("check")
    assert 'if skopeo inspect --raw "docker://$IMAGE:$TAG"' in runs("push")
    assert list(RELEASE[True]) == ["workflow_dispatch"], "nobody releases by pushing a tag"
    assert JOBS["check"]["if"] == "github.ref == 'refs/heads/main'"
    assert '"$COMMIT" =~ ^[0-9a-f]{40}$' in runs("check")
    assert 'git merge-base --is-ancestor "$COMMIT" origin/main' in runs("check")
    for name, found in JOBS.items():
        assert all(step["with"]["ref"] == "${{ inputs.commit }}" for step in used(found, "actions/checkout")), name
        assert name == "check" or found["needs"], "all wait for the check"


@pytest.mark.attack(
    by="supply chain", tries="steal a write token through a package", stopped_by="those run in read-only jobs"
)
@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_where_a_token_may_write_or_sign_nothing_is_installed_built_or_tested(path: Path) -> None:
    for name, found in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
        if found["permissions"].keys() & {"packages", "id-token"} or found["permissions"].get("contents") == "write":
            lines = "\n".join(step.get("run", "") for step in found["steps"])
            installs = re.search(r"\b(pip|make|pytest|python|uv|npm|npx|curl|wget|buildx)\b", lines)
            assert not installs, f"{path.name}: {name}"
            actions = {str(step["uses"]).partition("@")[0] for step in found["steps"] if "uses" in step}
            assert actions - {"pypa/gh-action-pypi-publish"} <= {f"actions/{action}" for action in HARMLESS}


@pytest.mark.usefixtures("processes")
def test_the_release_names_its_image_as_the_script_that_is_tested_does(tmp_path: Path) -> None:
    (line,) = re.findall(r"^sed .+$", JOBS["publish"]["steps"][-1]["run"], re.MULTILINE)
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    (tmp_path / "action.yml").write_text(re.sub(r"(?m)^  image: .+$", "  image: Dockerfile", text), encoding="utf-8")
    environ = {"IMAGE": "ghcr.io/ragstone/ragstone", "DIGEST": f"sha256:{'0' * 64}", "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environ, check=True)
    script = runpy.run_path(str(ROOT / "scripts" / "action_file.py"))
    expected = script["action_yml"](f"docker://{environ['IMAGE']}@{environ['DIGEST']}")
    assert (tmp_path / "action.yml").read_text(encoding="utf-8") == expected


def program(name: str) -> str:
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        pytest.fail(f"{name} belongs to the lint group: pip install --group lint")
    return found


def lint(*arguments: str) -> None:
    done = subprocess.run([program(arguments[0]), *arguments[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_job_that_may_sign_does_nothing_else() -> None:
    (workflow,) = [yaml.safe_load(text) for text in examples() if "actions/attest@" in text]
    jobs = workflow["jobs"]
    assert [name for name in jobs if "id-token" in jobs[name]["permissions"]] == ["sign"]
    (step,) = jobs["sign"]["steps"]
    assert step["uses"].startswith("actions/attest@")


@pytest.mark.usefixtures("processes")
def test_workflows_and_action_fit_githubs_schemas(tmp_path: Path) -> None:
    written = written_to(tmp_path)
    lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, [*OURS, *written]))
    lint("check-jsonschema", "--builtin-schema", "vendor.github-actions", str(ROOT / "action.yml"))
    lint("check-jsonschema", "--builtin-schema", "vendor.dependabot", str(ROOT / ".github" / "dependabot.yml"))


@pytest.mark.usefixtures("processes")
def test_our_workflows_are_clean_to_the_auditor() -> None:
    lint("zizmor", "--offline", "--no-progress", "--quiet", str(ROOT / ".github"), str(ROOT / "action.yml"))


def written_to(folder: Path) -> list[Path]:
    """The workflows of the pages and of `init`, in files."""
    texts = [*examples(), *of_init(folder / "init")]
    assert len(texts) > 12
    workflows = folder / ".github" / "workflows"
    workflows.mkdir(parents=True)
    for n, text in enumerate(texts):
        (workflows / f"example-{n}.yml").write_text(text, encoding="utf-8")
    return sorted(workflows.iterdir())


@pytest.mark.usefixtures("processes")
def test_what_users_copy_is_clean_to_the_auditor_but_for_pins(tmp_path: Path) -> None:
    # In the documentation, versions are for reading; the text says to pin. workflow_run is what the example is about.
    rules = "rules:\n  unpinned-uses:\n    disable: true\n  dangerous-triggers:\n    disable: true\n"
    (tmp_path / "zizmor.yml").write_text(rules, encoding="utf-8")
    config = ("--config", str(tmp_path / "zizmor.yml"))
    lint("zizmor", "--offline", "--no-progress", "--quiet", *config, *map(str, written_to(tmp_path)))


@pytest.mark.usefixtures("processes")
def test_actionlint_finds_nothing_in_our_workflows_nor_in_what_users_copy(tmp_path: Path) -> None:
    lint("actionlint", *map(str, [*OURS, *written_to(tmp_path)]))
