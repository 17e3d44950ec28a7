"""Draw the pictures of the README, docs/images/comment.webp and docs/images/report.webp: make pictures

The regressed example is gated for real. Headless Chromium takes one picture of its comment on a pull request, in a
frame like GitHub's, and one of its HTML report. Needs Chromium, the DejaVu fonts and the Noto emoji font.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = Path("examples") / "docs-qa"
IMAGES = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FRAME = """\
<!doctype html><meta charset="utf-8"><style>
  body {{ margin: 16px; font: 14px/1.5 "DejaVu Sans", sans-serif; color: #1f2328; background: #fff; }}
  .comment {{ border: 1px solid #d1d9e0; border-radius: 6px; }}
  .author {{ padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; color: #59636e; }}
  .author b {{ color: #1f2328; }}
  .body {{ padding: 0 16px; }}
  h2 {{ border-bottom: 1px solid #d1d9e0; padding-bottom: 6px; }}
  table {{ border-collapse: collapse; font-size: 12px; }}
  th, td {{ border: 1px solid #d1d9e0; padding: 5px 8px; }}
  tr:nth-child(even) td {{ background: #f6f8fa; }}
  code {{ background: #eff1f3; padding: 1px 4px; font: 11px "DejaVu Sans Mono", monospace; white-space: nowrap; }}
  pre {{ background: #f6f8fa; padding: 12px; overflow: hidden; }}
  pre code {{ background: none; }}
  blockquote {{ margin: 0; padding: 0 14px; border-left: 4px solid #d1d9e0; color: #59636e; }}
</style>
<div class="comment">
<div class="author"><b>github-actions</b> bot commented</div>
<div class="body">{body}</div>
</div>
"""


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


def draw(folder: Path) -> None:
    """Write both pictures to `folder`."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "ragstone-run"
        gate(out)
        text = (out / "report.md").read_text(encoding="utf-8")
        body = MarkdownIt("gfm-like", {"html": True}).render(text)
        comment = out / "comment.html"
        comment.write_text(FRAME.format(body=body), encoding="utf-8")
        photograph(comment, folder / "comment.webp", 980, 790)
        photograph(out / "report.html", folder / "report.webp", 1280, 1030)


if __name__ == "__main__":
    draw(IMAGES)
