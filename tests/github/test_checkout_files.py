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


def link_to_link(path: Path, outside: Path) -> None:
    (path.parent / "between").symlink_to(outside)
    path.symlink_to("between")


def unix_socket(path: Path, _outside: Path) -> None:
    short = Path("/tmp") / f"rs-{os.getpid()}"  # an address has room for 100 characters
    short.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
    shutil.move(short, path)


def sparse(path: Path, _outside: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10 * 1024**3)


Make = Callable[[Path, Path], object]
KINDS: dict[str, Make] = {
    "a link out": lambda path, outside: path.symlink_to(outside),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a folder": lambda path, _: path.mkdir(),
    "a link to a link": link_to_link,
    "the environment": lambda path, _: path.symlink_to("/proc/self/environ"),
    "its own input": lambda path, _: path.symlink_to("/proc/self/fd/0"),
    "a link to nothing": lambda path, _: path.symlink_to("nowhere"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a socket": unix_socket,
    "a device": lambda path, _: path.symlink_to("/dev/zero"),
    "10 GB": sparse,
}
LABELS = '[metrics.faithfulness]\nmin = 0.1\n[labels]\nfile = "calibration.json"\n'
FILES: dict[str, tuple[str, dict[str, str]]] = {
    "the golden set": ("golden.jsonl", {}),
    "a golden set by pattern": ("golden.jsonl", {"ragstone.toml": CONFIG.replace("golden.j", "golden.[j]")}),
    "a golden set by a detour": (
        "golden.jsonl",
        {"ragstone.toml": CONFIG.replace("golden.j", "../workspace/golden.j")},
    ),
    "the policy": ("thresholds.toml", {}),
    "a policy by name": ("thresholds.toml", {"ragstone.toml": f'{CONFIG}[gate]\nthresholds = "thresholds.toml"\n'}),
    "accepted drops": ("accepted.toml", {}),
    "the config": ("ragstone.toml", {}),
    "recorded answers": ("outputs.jsonl", {}),
    "calibration": ("calibration.json", {"thresholds.toml": LABELS}),
    "a script": ("script.json", {"ragstone.toml": f'{CONFIG}[judge]\nname = "scripted:script.json"\n'}),
    "a template": ("templates/report.md.j2", {"templates/other.md.j2": "x"}),
    "a second template": ("templates/second.md.j2", {"templates/report.md.j2": "x"}),
    "a run": ("old-run/manifest.json", {"old-run/samples.jsonl": "{}\n"}),
    "records of a run": ("old-run/samples.jsonl", {"old-run/manifest.json": "{}\n"}),
}
"""A file that a job reads, and others that are there, some of which name it."""


def run(checkout: Checkout, name: str = "") -> Outcome | RagstoneError:
    environ = {"RAGSTONE_BASELINE": "old-run"} if name.startswith("old-run") else {}
    try:
        return checkout.gate(**environ)
    except RagstoneError as error:  # of the config file, before there is a job
        return error


def said(checkout: Checkout, found: Outcome) -> str:
    return f"{found.log}{found.summary}{found.outputs}{checkout.comments}"


CASES = [
    *(("the golden set", kind) for kind in KINDS),
    *(("a template", kind) for kind in KINDS),
    *((file, kind) for file in FILES for kind in list(KINDS)[:3]),
]
"""Every kind as one file that the job asks for and one that it looks for; every file as three kinds."""


@pytest.mark.attack(
    by="pull request",
    tries="a link, pipe, device or huge file as input",
    stopped_by="regular, in the workspace, bounded",
)
@pytest.mark.parametrize(("file", "kind"), dict.fromkeys(CASES))
def test_what_is_no_ordinary_file_of_the_checkout_is_refused_at_once(checkout: Checkout, file: str, kind: str) -> None:
    name, others = FILES[file]
    for other, text in others.items():
        checkout.write(other, text)
    path = checkout.root / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    KINDS[kind](path, checkout.files / "secret")
    found = run(checkout, name)
    if isinstance(found, RagstoneError):
        assert found.exit_code == 2
        assert SECRET not in str(found)
        return
    assert SECRET not in said(checkout, found)
    if "template" in file and kind == "a folder":
        assert found.code == 0  # a folder of that name is no template, and not looked at
        return
    assert found.code in (2, 3, 4, 6), found.log
    assert found.verdict == "error"


@pytest.mark.parametrize(
    ("folder", "config"),
    [
        ("data", CONFIG.replace("golden.jsonl", "data/*.jsonl")),
        ("templates", CONFIG),
        ("old-run", CONFIG),
        ("conf", f'{CONFIG}[gate]\nthresholds = "conf/thresholds.toml"\n'),
    ],
)
def test_a_folder_that_leads_out_is_not_entered(checkout: Checkout, folder: str, config: str) -> None:
    outside = checkout.files / "folder"
    outside.mkdir()
    for name in ("golden.jsonl", "manifest.json", "samples.jsonl"):
        shutil.copy(checkout.root / "golden.jsonl", outside / name)
    (outside / "report.md.j2").write_text(SECRET, encoding="utf-8")
    (outside / "thresholds.toml").write_text("[gate]\n", encoding="utf-8")
    (checkout.root / folder).symlink_to(outside)
    checkout.write("ragstone.toml", config)
    found = run(checkout, folder)
    assert isinstance(found, Outcome)
    assert found.code in (2, 3, 6), found.log
    assert "outside the workspace" in found.log
    assert SECRET not in said(checkout, found)


SYSTEM = '[system]\nentrypoint = "{}"\n'
JUDGE = '[judge]\nname = "{}"\n'


@pytest.mark.parametrize(
    ("setting", "spelt", "code"),
    [
        *((SYSTEM, spelt, 2) for spelt in ("FILE:{}", "file :{}", "file\t:{}", "ﬁle:{}")),
        *((SYSTEM, spelt, 4) for spelt in (" file:{}", "file: {}", "file:../runner/secret", "\tfile:{} ")),
        *((JUDGE, spelt, 2) for spelt in ("scripted :{}", " scripted:{}", "SCRIPTED:{}", "scripted: {}", "fitted:{}")),
    ],
)
def test_a_file_outside_is_not_read_however_its_scheme_is_spelt(
    checkout: Checkout, setting: str, spelt: str, code: int
) -> None:
    config = CONFIG.replace('[system]\nentrypoint = "file:outputs.jsonl"\n', "") if setting is SYSTEM else CONFIG
    named = spelt.format(checkout.files / "secret").replace("\t", "\\t")
    checkout.write("ragstone.toml", config + setting.format(named))
    found = checkout.gate(RAGSTONE_MODEL_DIGESTS="sha256:" + "0" * 64)
    assert found.code == code, found.log
    assert code == 2 or "outside the workspace" in found.log
    assert SECRET not in found.log


def test_a_fitted_judge_that_is_a_link_out_is_not_read(checkout: Checkout) -> None:
    (checkout.root / "judge.json").symlink_to(checkout.files / "secret")
    checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "fitted:judge.json"\n')
    found = checkout.gate(RAGSTONE_MODEL_DIGESTS="sha256:" + "0" * 64)
    assert (found.code, SECRET in found.log) == (2, False), found.log


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("golden.jsonl", "a link out"),
        ("thresholds.toml", "a pipe"),
        ("templates/report.md.j2", "a link out"),
        ("ragstone.toml", "a folder"),
    ],
)
def test_what_is_replaced_while_the_job_runs_has_been_read(checkout: Checkout, name: str, kind: str) -> None:
    checkout.write("templates/report.md.j2", "As committed.")
    checkout.is_base()
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", 'command:./rag.sh"\nconcurrency = 1\n#'))
    KINDS[kind](checkout.root / "replacement", checkout.files / "secret")
    answer = "The Moon is far away from the Earth."
    reply = f'{{"id": "%s", "answer": "{answer}", "contexts": ["{answer}"]}}'
    checkout.program(
        "rag.sh",
        f"""\
        #!/bin/sh
        mv {name} aside && mv replacement {name}
        while read -r line; do
          printf '{reply}\\n' "$(printf '%s' "$line" | sed 's/.*"id": *"\\([a-z]*\\)".*/\\1/')"
        done
        """,
    )
    found = checkout.gate()
    assert (checkout.root / "aside").exists()
    assert found.verdict in ("pass", "fail", "inconclusive"), found.log
    assert "As committed." in found.summary
    assert SECRET not in said(checkout, found)


@pytest.mark.parametrize("name", [b"g\xff.jsonl", b"g\n::error::x.jsonl", "g\u202e.jsonl".encode(), b"g##[x].jsonl"])
def test_a_name_that_is_no_plain_text_acts_nowhere(checkout: Checkout, name: bytes) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("golden.jsonl", "g*.jsonl"))
    checkout.answer_badly()
    (checkout.root / "golden.jsonl").rename(os.fsdecode(os.fsencode(checkout.root) + b"/" + name))
    found = checkout.gate()
    assert found.code in (1, 3), found.log
    for text in ("\n".join(found.annotations), found.log, found.summary, *checkout.comments):
        assert "\u202e" not in text
        assert not [line for line in text.splitlines() if line.startswith("::error::x")]
