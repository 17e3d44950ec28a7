"""Write action.yml, the tables in docs/github-action.md, and the release that workflows name.

python scripts/action_file.py            # write
python scripts/action_file.py --check    # exit with 1 if a file differs
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from ragstone._version import __version__
from ragstone.github.inputs import INPUTS
from ragstone.github.outputs import OUTPUTS, metric_output
from ragstone.metrics.registry import METRICS

ROOT = Path(__file__).parents[1]
PAGE = "docs/github-action.md"
STARTER = "src/ragstone/pipeline/init/starter/workflow.yml.j2"
IMAGE = "Dockerfile"
_RELEASE = re.compile(r"\bragstone/ragstone@v[\w.]*\w")

_HEAD = """\
# Written by scripts/action_file.py from src/ragstone/github/inputs.toml and outputs.py.
name: Ragstone
description: A quality gate for RAG systems. Golden set in, verdict out.
author: The Ragstone authors
branding:
  icon: shield
  color: gray-dark
"""


def action_yml(image: str) -> str:
    """The whole of action.yml. `image` is ``Dockerfile``, or ``docker://…@sha256:…`` in a release."""
    lines = [_HEAD, "inputs:"]
    for spec in INPUTS:
        lines += [
            f"  {spec.name}:",
            f"    description: {json.dumps(spec.description, ensure_ascii=False)}",
            "    required: false",
            f"    default: {json.dumps(spec.default)}",
        ]
    lines.append("outputs:")
    for name, description in OUTPUTS.items():
        lines += [f"  {name}:", f"    description: {json.dumps(description, ensure_ascii=False)}"]
    lines += ["runs:", "  using: docker", f"  image: {image}", ""]
    return "\n".join(lines)


def inputs_table() -> str:
    """The inputs as a Markdown table."""
    rows = ["| Input | Default | What it does |", "|:--|:--|:--|"]
    for spec in INPUTS:
        default = f"`{spec.default}`" if spec.default else ""
        rows.append(f"| `{spec.name}` | {default} | {_cell(spec.description)} |")
    return "\n".join(rows)


def outputs_table() -> str:
    """The outputs as a Markdown table, without those of metrics."""
    metrics = [metric_output(name) for name in METRICS if "@" not in name]
    rows = ["| Output | What it holds |", "|:--|:--|"]
    rows += [f"| `{name}` | {_cell(text)} |" for name, text in OUTPUTS.items() if name not in metrics]
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """`page` with the text between the markers of each table replaced. Pages without markers are unchanged."""
    tables = {"inputs": inputs_table(), "outputs": outputs_table()}
    pattern = re.compile(r"(<!-- (inputs|outputs):begin -->\n).*?(<!-- \2:end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{tables[found[2]]}\n{found[3]}", page)


def current_image() -> str:
    found = re.search(r"^  image: (.+)$", (ROOT / "action.yml").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else IMAGE


def files(image: str) -> dict[Path, str]:
    """Every generated file with its expected content."""
    found = {ROOT / "action.yml": action_yml(image)}
    page = ROOT / PAGE
    found[page] = with_tables(page.read_text(encoding="utf-8"))
    # A release's tag is never moved, so there is no tag such as v1.
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / STARTER):
        text = found.get(path) or path.read_text(encoding="utf-8")
        found[path] = _RELEASE.sub(f"ragstone/ragstone@v{__version__}", text)
    return found


def main(arguments: list[str]) -> int:
    """`--image X` sets the image of a release, `--check` compares only."""
    image = arguments[arguments.index("--image") + 1] if "--image" in arguments else None
    if image is None:
        image = current_image() if (ROOT / "action.yml").is_file() else IMAGE
    differing = [
        (path, text) for path, text in files(image).items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path, text in differing:
        if "--check" in arguments:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what scripts/action_file.py writes.\n")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if "--check" in arguments and differing else 0


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
