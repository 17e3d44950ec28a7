"""Every file that a checkout can name, as all that it should not be: no job hangs, none reads what is not its own.

Links that lead out, pipes, sockets, folders, devices, files of 10 GB, names that are no text, and files that are put
in another's place while the job runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from ragstone.errors import RagstoneError
from tests.github.api.fake import FakeGitHub
from tests.github.builders import CONFIG, Checkout, Outcome

SECRET = "the-runners-own-secret-0123456789"
PATIENCE_S = 60
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.write("ragstone.toml", CONFIG)
    (checkout.files / "secret").write_text(f"{SECRET}\n", encoding="utf-8")
    return checkout


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """A job that hangs is a failure, not a test that hangs."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError("the job hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# -- what a file may be instead ----------------------------------------------------------------------------------------


def link_out(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_link(path: Path, outside: Path) -> None:
    (path.parent / "between").symlink_to(outside)
    path.symlink_to("between")


def link_of_a_process(path: Path, _outside: Path) -> None:
    path.symlink_to("/proc/self/environ")


def own_output(path: Path, _outside: Path) -> None:
    path.symlink_to("/proc/self/fd/0")


def dangling(path: Path, _outside: Path) -> None:
    path.symlink_to("nowhere")


def circle(path: Path, _outside: Path) -> None:
    path.symlink_to(path.name)


def fifo(path: Path, _outside: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path, _outside: Path) -> None:
    short = Path("/tmp") / f"rs-{os.getpid()}"  # an address has room for 100 characters
    short.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
    shutil.move(short, path)


def folder(path: Path, _outside: Path) -> None:
    path.mkdir()


def device(path: Path, _outside: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path, _outside: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10 * 1024**3)


KINDS: tuple[Callable[[Path, Path], None], ...] = (
    *(link_out, link_to_link, link_of_a_process, own_output, dangling, circle),
    *(fifo, unix_socket, folder, device, sparse),
)

# -- what a checkout names ---------------------------------------------------------------------------------------------


def golden(checkout: Checkout) -> None:
    pass


def golden_by_pattern(checkout: Checkout) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("golden.jsonl", "golden.[j]sonl"))


def outside_by_name(checkout: Checkout) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("golden.jsonl", "../workspace/../workspace/golden.jsonl"))


def policy_named(checkout: Checkout) -> None:
    checkout.write("ragstone.toml", f'{CONFIG}[gate]\nthresholds = "thresholds.toml"\n')


def calibration(checkout: Checkout) -> None:
    checkout.write("thresholds.toml", '[metrics.faithfulness]\nmin = 0.1\n[labels]\nfile = "calibration.json"\n')


def script(checkout: Checkout) -> None:
    checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "scripted:{checkout.root}/script.json"\n')


def certificates(checkout: Checkout) -> None:
    judge = '[judge]\nname = "openai-compatible:m"\nbase_url = "https://127.0.0.1:9/v1"\nca_bundle = "ca.pem"\n'
    checkout.write("ragstone.toml", f"{CONFIG}{judge}")


def template(checkout: Checkout) -> None:
    checkout.write("templates/other.md.j2", "x")


def second_template(checkout: Checkout) -> None:
    checkout.write("templates/report.md.j2", "x")


def baseline(checkout: Checkout) -> None:
    for name in ("manifest.json", "samples.jsonl"):
        checkout.write(f"old-run/{name}", "{}\n")


Names = Callable[[Checkout], None]
FILES: tuple[tuple[str, Names], ...] = (
    ("golden.jsonl", golden),
    ("golden.jsonl", golden_by_pattern),
    ("golden.jsonl", outside_by_name),
    ("thresholds.toml", golden),
    ("thresholds.toml", policy_named),
    ("accepted.toml", golden),
    ("ragstone.toml", golden),
    ("outputs.jsonl", golden),
    ("calibration.json", calibration),
    ("script.json", script),
    ("ca.pem", certificates),
    ("templates/report.md.j2", template),
    ("templates/second.md.j2", second_template),
    ("old-run/manifest.json", baseline),
    ("old-run/samples.jsonl", baseline),
)


def run(checkout: Checkout, name: str = "") -> Outcome | RagstoneError:
    environ = {"RAGSTONE_BASELINE": "old-run"} if name.startswith("old-run") else {}
    try:
        return checkout.gate(**environ)
    except RagstoneError as error:  # of the config file, before there is a job
        return error


CASES = [
    *(("golden.jsonl", golden, kind) for kind in KINDS),
    *(("templates/report.md.j2", template, kind) for kind in KINDS),
    *((name, named, kind) for name, named in FILES for kind in (link_out, fifo, folder)),
]
"""Every kind as one file that the job asks for and one that it looks for; every file as three kinds."""


@pytest.mark.attack(
    by="pull request",
    tries="a named file that is a link out, a pipe, a socket, a folder, a device, 10 GB",
    stopped_by="one function opens all: regular, in the workspace, bounded",
)
@pytest.mark.parametrize(("name", "named", "kind"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_no_ordinary_file_of_the_checkout_is_refused_at_once(
    github: FakeGitHub,
    checkout: Checkout,
    name: str,
    named: Names,
    kind: Callable[[Path, Path], None],
) -> None:
    named(checkout)
    path = checkout.root / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    kind(path, checkout.files / "secret")
    found = run(checkout, name)
    if isinstance(found, RagstoneError):
        assert found.exit_code == 2
        assert SECRET not in str(found)
        return
    assert SECRET not in f"{found.log}{found.summary}{found.outputs}{github.bodies()}"
    if named in (template, second_template) and kind is folder:
        assert found.code == 0  # a folder of that name is no template, and not looked at
        return
    assert found.code in (2, 3, 4, 6), found.log
    assert found.outputs["verdict"] == "error"


@pytest.mark.parametrize("folder", ["data", "templates", "old-run", "conf"])
def test_a_folder_that_leads_out_is_not_entered(github: FakeGitHub, checkout: Checkout, folder: str) -> None:
    outside = checkout.files / "folder"
    outside.mkdir()
    for name in ("golden.jsonl", "thresholds.toml", "manifest.json", "samples.jsonl"):
        shutil.copy(checkout.root / "golden.jsonl", outside / name)
    (outside / "report.md.j2").write_text(SECRET, encoding="utf-8")
    (outside / "thresholds.toml").write_text("[gate]\n", encoding="utf-8")
    (checkout.root / folder).symlink_to(outside)
    if folder == "data":
        checkout.write("ragstone.toml", CONFIG.replace("golden.jsonl", "data/*.jsonl"))
    elif folder == "conf":
        checkout.write("ragstone.toml", f'{CONFIG}[gate]\nthresholds = "conf/thresholds.toml"\n')
    found = run(checkout, folder)
    assert isinstance(found, Outcome)
    assert found.code in (2, 3, 6), found.log
    assert "outside the workspace" in found.log
    assert SECRET not in f"{found.log}{found.summary}{github.bodies()}"


SPELT = {
    **dict.fromkeys(("FILE:{}", "file :{}", "file\t:{}", "ﬁle:{}"), 2),
    **dict.fromkeys((" file:{}", "file: {}", "file:../runner/outputs.jsonl", "\tfile:{} "), 4),
}


@pytest.mark.parametrize(("entrypoint", "code"), SPELT.items())
def test_an_entrypoint_opens_no_file_outside_however_it_is_spelt(
    checkout: Checkout, entrypoint: str, code: int
) -> None:
    outside = checkout.files / "outputs.jsonl"
    shutil.move(checkout.root / "outputs.jsonl", outside)
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", entrypoint.format(outside)))
    found = run(checkout)
    assert isinstance(found, Outcome)
    assert found.code == code, found.log
    assert code == 2 or "outside the workspace" in found.log


@pytest.mark.parametrize("judge", ["scripted :{}", " scripted:{}", "SCRIPTED:{}", "scripted: {}"])
def test_a_script_outside_is_not_read(checkout: Checkout, judge: str) -> None:
    checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "{judge.format(checkout.files / "secret")}"\n')
    found = run(checkout)
    assert isinstance(found, Outcome)
    assert found.code == 2, found.log
    assert SECRET not in found.log


def test_a_fitted_judge_that_leads_out_is_not_read(checkout: Checkout) -> None:
    (checkout.root / "judge.json").symlink_to(checkout.files / "secret")
    for file in ("judge.json", str(checkout.files / "secret")):
        checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "fitted:{file}"\n')
        found = checkout.gate(RAGSTONE_MODEL_DIGESTS="sha256:" + "0" * 64)
        assert found.code == 2, found.log
        assert SECRET not in found.log


REPLACED = {
    "golden.jsonl": link_out,
    "thresholds.toml": fifo,
    "templates/report.md.j2": link_out,
    "ragstone.toml": folder,
}


@pytest.mark.parametrize(("name", "kind"), REPLACED.items(), ids=list(REPLACED))
def test_what_is_replaced_while_the_job_runs_has_been_read(
    github: FakeGitHub, checkout: Checkout, name: str, kind: Callable[[Path, Path], None]
) -> None:
    checkout.write("templates/report.md.j2", "As committed.")
    checkout.is_base()
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", 'command:./rag.sh"\nconcurrency = 1\n#'))
    replacement = checkout.root / "replacement"
    kind(replacement, checkout.files / "secret")
    said = "The Moon is far away from the Earth."
    reply = f'{{"id": "%s", "answer": "{said}", "contexts": ["{said}"]}}'
    checkout.write(
        "rag.sh",
        f"""\
        #!/bin/sh
        mv {name} aside && mv replacement {name}
        while read -r line; do
          printf '{reply}\\n' "$(printf '%s' "$line" | sed 's/.*"id": *"\\([a-z]*\\)".*/\\1/')"
        done
        """,
    )
    (checkout.root / "rag.sh").chmod(0o755)
    found = run(checkout)
    assert isinstance(found, Outcome)
    assert (checkout.root / "aside").exists()
    assert found.outputs["verdict"] in ("pass", "fail", "inconclusive"), found.log
    assert "As committed." in found.summary
    assert SECRET not in f"{found.log}{found.summary}{github.bodies()}"


@pytest.mark.parametrize("name", [b"g\xff.jsonl", b"g\n::error::x.jsonl", "g\u202e.jsonl".encode(), b"g##[x].jsonl"])
def test_a_name_that_is_no_plain_text_acts_nowhere(github: FakeGitHub, checkout: Checkout, name: bytes) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("golden.jsonl", "g*.jsonl"))
    checkout.answer_badly()
    (checkout.root / "golden.jsonl").rename(os.fsdecode(os.fsencode(checkout.root) + b"/" + name))
    found = run(checkout)
    assert isinstance(found, Outcome)
    assert found.code in (1, 3), found.log
    assert not [line for line in found.annotations if line.startswith("::error::x")]
    for text in (found.log, found.summary, *github.bodies()):
        assert "\u202e" not in text
        assert not [line for line in text.splitlines() if line.startswith("::error::x")]
