"""Rehearse a release: version, changelog and action.yml agree; packages, SBOM and image are built and tried.

    make release-check                                       # before tagging
    make release-check RELEASE_ARGS="--tag v1.2.3 --no-image"  # in the release workflow, which builds the image itself

Everything is written to build/release. Nothing is published.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "release"
DEMO = ROOT / "examples" / "docs-qa"
_DIGEST = re.compile(r"docker://\S+@sha256:[0-9a-f]{64}")
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?\s*$", re.MULTILINE)


class NotReadyError(Exception):
    """The release is not ready; the message says why, and what to do."""


def check_agreement(root: Path, tag: str | None) -> str:
    """The version that package, changelog, action.yml and `tag` (None: not tagged yet) agree on."""
    found = re.search(r'__version__ = "(\d+\.\d+\.\d+)"', _text(root / "src/ragstone/_version.py"))
    if found is None:
        raise NotReadyError("src/ragstone/_version.py has no version such as 1.2.3.")
    version = found.group(1)
    if tag is not None and tag != f"v{version}":
        raise NotReadyError(f"the tag is {tag}, but the package is {version}: tag v{version}, or change _version.py.")
    _check_changelog(_text(root / "CHANGELOG.md"), version, released=tag is not None)
    image = re.search(r"^  image: (.+)$", _text(root / "action.yml"), re.MULTILINE)
    if image is None or not (image.group(1) == "Dockerfile" or _DIGEST.fullmatch(image.group(1))):
        raise NotReadyError("action.yml must name the image as Dockerfile (on main), or by digest (in a release).")
    return version


def _check_changelog(text: str, version: str, *, released: bool) -> None:
    headings = list(_HEADING.finditer(text))
    if not headings or headings[0]["name"] != "Unreleased":
        raise NotReadyError("CHANGELOG.md does not start with [Unreleased].")
    ends = [*(one.start() for one in headings[1:]), len(text)]
    bodies = {one["name"]: text[one.end() : end].strip() for one, end in zip(headings, ends, strict=True)}
    if not released:
        if not bodies["Unreleased"] and not bodies.get(version):
            raise NotReadyError(f"CHANGELOG.md says nothing about the next release, nor about {version}.")
        return
    newest = headings[1] if len(headings) > 1 else None
    if newest is None or newest["name"] != version:
        raise NotReadyError(
            f"the newest release in CHANGELOG.md is not {version}: rename [Unreleased], and start a new one."
        )
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", newest["date"] or ""):
        raise NotReadyError(f"[{version}] in CHANGELOG.md has no date such as 2026-01-31.")
    if bodies["Unreleased"]:
        raise NotReadyError(f"CHANGELOG.md has unreleased changes above {version}: move them into it.")
    if not bodies[version]:
        raise NotReadyError(f"CHANGELOG.md says nothing about {version}.")


def check_wheel(wheel: Path, tracked: Iterable[str]) -> None:
    """Refuse a wheel that lacks a file of the package, or has one from elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    expected = {name.removeprefix("src/") for name in tracked}
    missing = sorted(expected - inside)
    foreign = sorted(name for name in inside - expected if ".dist-info/" not in name)
    if missing or foreign:
        said = [f"{wheel.name}:"]
        said += [f"missing {missing[0]} and {len(missing) - 1} more;"] if missing else []
        said += [f"unexpected {foreign[0]} and {len(foreign) - 1} more"] if foreign else []
        raise NotReadyError(" ".join(said))


def check_sbom(path: Path, required: Iterable[str]) -> int:
    """Refuse an SBOM without one of the `required` packages; returns the number of components."""
    components = json.loads(_text(path))["components"]
    names = {_normal(component["name"]) for component in components}
    missing = sorted({_normal(name) for name in required} - names)
    if missing:
        raise NotReadyError(f"{path.name} does not list {', '.join(missing)}.")
    return len(components)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _say(line: str) -> None:
    print(f"== {line}", flush=True)


def _run(*command: str | Path, expect: int = 0) -> None:
    found = subprocess.run([str(word) for word in command], cwd=ROOT, check=False, capture_output=True, text=True)
    if found.returncode != expect:
        sys.stdout.write(found.stdout + found.stderr)
        raise NotReadyError(f"{' '.join(map(str, command))} ended with {found.returncode}, expected {expect}.")


def build_packages() -> tuple[Path, Path]:
    """The sdist, and the wheel built from it, by tools that are pinned by hash, in an environment of their own.

    They are built twice, and must be the same to the last bit: whoever has the commit can build them again.
    """
    tools = OUT / "build-venv"
    _run(sys.executable, "-m", "venv", tools)
    pip = (tools / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
    _run(*pip, "--require-hashes", "--only-binary", ":all:", "--requirement", ROOT / "requirements/build.txt")
    made = {name: _built(tools, OUT / name) for name in ("dist", "dist-again")}
    check_reproducible(made["dist"], made["dist-again"])
    sdist, wheel = made["dist"]
    _run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    listed = subprocess.run(
        ["git", "ls-files", "src/ragstone"],  # noqa: S607 - git is where PATH says
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    check_wheel(wheel, listed.stdout.split("\n")[:-1])
    return sdist, wheel


def _built(tools: Path, out: Path) -> tuple[Path, Path]:
    date = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607 - git is where PATH says
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    os.environ["SOURCE_DATE_EPOCH"] = date.stdout.strip()
    _run(tools / "bin/python", "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def check_reproducible(first: Iterable[Path], second: Iterable[Path]) -> None:
    """Refuse packages that differ between two builds."""
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise NotReadyError(f"two builds of {one.name} differ, so that nobody can check what it was built from.")


def try_wheel(wheel: Path, version: str) -> None:
    """Install the wheel alone in a fresh environment, and run the example and its regressed variant with it."""
    home = OUT / "venv"
    _run(sys.executable, "-m", "venv", home)
    _run(home / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    ragstone = home / "bin/ragstone"
    said = subprocess.run([ragstone, "--version"], check=True, capture_output=True, text=True).stdout.split()
    if said[-1] != version:
        raise NotReadyError(f"the installed wheel says that it is {said[-1]}, not {version}.")
    gate = (ragstone, "gate", "--config", DEMO / "ragstone.toml", "--baseline", DEMO / "baseline")
    _run(*gate, "--out", OUT / "demo")
    _run(*gate, "--entrypoint", "python:regressed:answer", "--out", OUT / "demo-regressed", expect=1)


def write_sbom() -> int:
    """The software bill of materials of the fresh environment, as CycloneDX JSON."""
    sbom = OUT / "sbom.cdx.json"
    cyclonedx = Path(sys.executable).with_name("cyclonedx-py")
    _run(cyclonedx, "environment", "--output-format", "JSON", "--output-file", sbom, OUT / "venv/bin/python")
    required = ("ragstone", "openai", "anthropic", "numpy", "pydantic", "click", "jinja2", "PyGithub")
    return check_sbom(sbom, required)


def build_image() -> None:
    """Build the action's image, as the container tests do."""
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        raise NotReadyError("the image needs root and buildah to be built; --no-image leaves it out.")
    _run(ROOT / "scripts/build-image", OUT / "image")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rehearse a release. Nothing is published.")
    parser.add_argument("--tag", help="the tag to be released, such as v1.2.3")
    parser.add_argument("--no-image", action="store_true", help="leave out the image")
    given = parser.parse_args(arguments)
    try:
        _say("tag, version, changelog and action.yml agree")
        version = check_agreement(ROOT, given.tag)
        shutil.rmtree(OUT, ignore_errors=True)
        _say(f"sdist and wheel of {version}, their metadata and contents")
        _, wheel = build_packages()
        _say("the wheel in a fresh environment runs the example")
        try_wheel(wheel, version)
        _say("SBOM")
        _say(f"build/release/sbom.cdx.json lists {write_sbom()} packages")
        if given.no_image:
            _say("the image was left out")
        else:
            _say("the image")
            build_image()
    except NotReadyError as refusal:
        print(f"not ready: {refusal}", file=sys.stderr)
        return 1
    _say(f"{version} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
