"""Output in an encoding that lacks the marks of a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragstone.cli.main import main


@pytest.mark.parametrize(
    ("encoding", "marks"), [("cp1252", b"OK Passed"), ("ascii", b"OK Passed"), ("utf-8", b"\xe2\x9c\x94")]
)
def test_output_that_the_encoding_lacks_keeps_the_code_of_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, marks: bytes
) -> None:
    """As in each step on a Windows runner."""
    rows = "".join(f"What is {number}?,0.9\n" for number in range(20))
    (tmp_path / "scores.csv").write_text(f"question,faithfulness\n{rows}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "out.txt").open("w", encoding=encoding) as stream:
        monkeypatch.setattr(sys, "__stdout__", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main(["compare", "scores.csv", "--verbose"])
        sys.stdout.flush()
    assert ended.value.code == 0
    shown = (tmp_path / "out.txt").read_bytes()
    assert marks in shown
    assert "Faithfulness".encode(encoding) in shown
