"""Draw the pictures of the README, docs/images/comment.webp and docs/images/report.webp: make pictures

The regressed example is gated for real. Headless Chromium takes one picture of its comment on a pull request, in a
frame like GitHub's, and one of its HTML report. What they say is written to docs/images/pictures.txt, which a test
compares with what the example says today. Needs Chromium and FONTS.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.report.comments import framed  # noqa: E402 - from the root of the repository

EXAMPLE = Path("examples") / "docs-qa"
IMAGES = ROOT / "docs" / "images"
FONTS = ("DejaVu Sans", "Noto Color Emoji")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def require_fonts() -> None:
    """End with a message if a font is missing: the marks of a verdict would be empty boxes."""
    program = shutil.which("fc-list") or sys.exit("pictures need fontconfig: fc-list was not found")
    listing = subprocess.run([program, ":", "family"], capture_output=True, text=True, check=True).stdout
    missing = [font for font in FONTS if font not in listing]
    if missing:
        sys.exit(f"pictures need the fonts {', '.join(missing)}: install fonts-dejavu-core and fonts-noto-color-emoji")


def gate(out: Path) -> None:
    """Gate the regressed example. It must fail, because the pictures are meant to show a failure."""
    program = Path(sys.executable).with_name("ragstone")
    command: list[str | Path] = [program, "gate", "--config", EXAMPLE / "ragstone.toml"]
    command += ["--baseline", EXAMPLE / "baseline", "--entrypoint", "python:regressed:answer", "--out", out]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 1:
        sys.exit(f"the regressed example ended with {done.returncode}, not 1")


def photograph(page: Path, picture: Path, width: int, height: int) -> None:
    """Write a picture of `page` in a window of `width` by `height`."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"pictures need a browser: none of {', '.join(BROWSERS)} was found")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.25"]
    size = [f"--window-size={width},{height}", f"--screenshot={picture}"]
    subprocess.run([browser, *flags, *size, page.as_uri()], capture_output=True, check=True)


def shown(comment: str) -> str:
    """What a comment says above its first fold, which is in both pictures."""
    return comment.partition("<details>")[0].rstrip() + "\n"


def draw(folder: Path) -> None:
    """Write both pictures, and what they say, to `folder`."""
    require_fonts()
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "ragstone-run"
        gate(out)
        text = (out / "report.md").read_text(encoding="utf-8")
        (folder / "pictures.txt").write_text(shown(text), encoding="utf-8")
        comment = out / "comment.html"
        comment.write_text(framed(text), encoding="utf-8")
        photograph(comment, folder / "comment.webp", 980, 790)
        photograph(out / "report.html", folder / "report.webp", 1280, 1030)


if __name__ == "__main__":
    draw(IMAGES)
