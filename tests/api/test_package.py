"""What `import ragstone` offers, and what its wheel holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ragstone
from ragstone.system.worker.join import worker_source

ROOT = Path(__file__).parents[2]
NAMES = [name for name in ragstone.__all__ if not name.startswith("__")]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("processes")
def test_dir_shows_every_public_name_before_anything_of_it_is_loaded() -> None:
    modules = "*sorted({name for name in sys.modules if name.partition('.')[0] not in sys.stdlib_module_names})"
    before, shown, after = python(
        f"import sys; print({modules}); import ragstone; print(*dir(ragstone)); print({modules})"
    ).splitlines()
    assert set(ragstone.__all__) <= set(shown.split())
    assert set(after.split()) - set(before.split()) == {"ragstone", "ragstone._version"}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_what_it_says_and_has_a_docstring(name: str) -> None:
    found = getattr(ragstone, name)
    assert found.__name__ == name
    assert found.__doc__
    assert getattr(ragstone, name) is found


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'evaluates'"):
        _ = ragstone.evaluates


@pytest.mark.usefixtures("processes")
def test_the_wheel_holds_the_marker_of_its_types_and_the_whole_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    assert "ragstone/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs", "bench"))]
    source = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ragstone; from ragstone.system.worker import join; "
        "print(ragstone.__file__); print(join.worker_source(), end='')"
    )
    assert source == f"{tmp_path / 'ragstone' / '__init__.py'}\n{worker_source()}"
