"""The rehearsal of a release."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.release_check import NotReadyError, check_agreement, check_reproducible, check_sbom, check_wheel

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "docker://ghcr.io/some/where@sha256:" + "0" * 64


def repository(
    folder: Path,
    *,
    version: str = "1.2.3",
    changelog: str = "## [Unreleased]\n\n## [1.2.3] - 2026-11-22\n\n- A change.\n",
    image: str = "Dockerfile",
) -> Path:
    (folder / "src/ragstone").mkdir(parents=True)
    (folder / "src/ragstone/_version.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{changelog}", encoding="utf-8")
    (folder / "action.yml").write_text(f"runs:\n  using: docker\n  image: {image}\n", encoding="utf-8")
    return folder


def test_a_tagged_release_that_agrees_is_ready(tmp_path: Path) -> None:
    assert check_agreement(repository(tmp_path / "a"), "v1.2.3") == "1.2.3"
    assert check_agreement(repository(tmp_path / "b", image=DIGEST), "v1.2.3") == "1.2.3"


def test_before_tagging_the_changes_may_be_unreleased(tmp_path: Path) -> None:
    changelog = "## [Unreleased]\n\n- A change.\n\n## [1.2.2] - 2026-01-01\n\n- Another.\n"
    assert check_agreement(repository(tmp_path, changelog=changelog), None) == "1.2.3"


@pytest.mark.parametrize(
    ("tag", "given", "says"),
    [
        ("v1.2.4", {}, "the tag is v1.2.4, but the package is 1.2.3"),
        ("1.2.3", {}, "the tag is 1.2.3"),
        ("v1.2.3", {"version": "1.2.3.dev0"}, "no version such as"),
        ("v1.2.3", {"changelog": "## [1.2.3] - 2026-11-22\n\n- A change.\n"}, "does not start with"),
        (
            "v1.2.3",
            {"changelog": "## [Unreleased]\n\n- A change.\n"},
            "the newest release in CHANGELOG.md is not 1.2.3",
        ),
        ("v1.2.3", {"changelog": "## [Unreleased]\n\n## [1.2.3]\n\n- A change.\n"}, "has no date"),
        ("v1.2.3", {"changelog": "## [Unreleased]\n\n## [1.2.3] - 2026-11-22\n"}, "says nothing about 1.2.3"),
        (
            "v1.2.3",
            {"changelog": "## [Unreleased]\n\n- Late.\n\n## [1.2.3] - 2026-11-22\n\n- A change.\n"},
            "unreleased changes above 1.2.3",
        ),
        (
            None,
            {"changelog": "## [Unreleased]\n\n## [1.2.2] - 2026-01-01\n\n- A change.\n"},
            "says nothing about the next",
        ),
        ("v1.2.3", {"image": "docker://ghcr.io/some/where:v1.2.3"}, "by digest"),
    ],
)
def test_what_does_not_agree_is_refused(tmp_path: Path, tag: str | None, given: dict[str, str], says: str) -> None:
    with pytest.raises(NotReadyError, match=says):
        check_agreement(repository(tmp_path, **given), tag)


def test_this_repository_agrees() -> None:
    assert check_agreement(ROOT, None)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["ragstone/__init__.py"], "missing ragstone/py.typed"),
        (["ragstone/__init__.py", "ragstone/py.typed", "tests/test_it.py"], r"unexpected tests/test_it\.py"),
    ],
)
def test_a_wheel_has_the_files_of_the_package_and_no_others(tmp_path: Path, files: list[str], says: str) -> None:
    tracked = ["src/ragstone/__init__.py", "src/ragstone/py.typed"]
    wheel = tmp_path / "ragstone-1.2.3-py3-none-any.whl"

    def write(names: list[str]) -> None:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in [*names, "ragstone-1.2.3.dist-info/METADATA"]:
                archive.writestr(name, "")

    write([name.removeprefix("src/") for name in tracked])
    check_wheel(wheel, tracked)
    write(files)
    with pytest.raises(NotReadyError, match=says):
        check_wheel(wheel, tracked)


@pytest.mark.attack(
    by="supply chain", tries="publish other packages than the commit's", stopped_by="built twice, to the same bits"
)
@pytest.mark.parametrize(("other", "content"), [("a.whl", b"1"), ("b.whl", b"0")])
def test_packages_that_differ_between_two_builds_are_refused(tmp_path: Path, other: str, content: bytes) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "a.whl").write_bytes(b"0")
    (tmp_path / "second" / other).write_bytes(content)
    check_reproducible([tmp_path / "first/a.whl"], [tmp_path / "first/a.whl"])
    with pytest.raises(NotReadyError, match=r"two builds of a\.whl differ"):
        check_reproducible([tmp_path / "first/a.whl"], [tmp_path / "second" / other])


def test_an_sbom_without_a_dependency_is_refused(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.cdx.json"
    sbom.write_text(json.dumps({"components": [{"name": "PyGithub"}, {"name": "numpy"}]}), encoding="utf-8")
    assert check_sbom(sbom, ["pygithub", "numpy"]) == 2
    with pytest.raises(NotReadyError, match="does not list openai"):
        check_sbom(sbom, ["numpy", "openai"])


@pytest.mark.heavy
def test_a_release_can_be_rehearsed() -> None:
    done = subprocess.run(
        ["make", "release-check", f"VENV={Path(sys.prefix).name}", "RELEASE_ARGS=--no-image"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is ready" in done.stdout
    assert list((ROOT / "build/release/dist").glob("*.whl"))
    assert len(list((ROOT / "build/release/dist-again").iterdir())) == 2, "both were built twice"
    assert (ROOT / "build/release/sbom.cdx.json").is_file()
