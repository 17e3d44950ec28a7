"""Comments of the example with its answers changed, and the page in which GitHub shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tests.cli.project import ragstone

EXAMPLE = Path(__file__).parents[2] / "examples" / "docs-qa"

FRAME = """\
<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>
  :root {{ color-scheme: light dark; --text: #1f2328; --muted: #59636e; --back: #fff; --soft: #f6f8fa;
    --line: #d1d9e0; --code: #818b981f; --link: #0969da; }}
  @media (prefers-color-scheme: dark) {{ :root {{ --text: #f0f6fc; --muted: #9198a1; --back: #0d1117; --soft: #151b23;
    --line: #3d444d; --code: #656c7633; --link: #4493f8; }} }}
  body {{ margin: 16px; color: var(--text); background: var(--back);
    font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, "DejaVu Sans", sans-serif; }}
  .comment {{ border: 1px solid var(--line); border-radius: 6px; }}
  .author {{ padding: 8px 16px; background: var(--soft); border-bottom: 1px solid var(--line); color: var(--muted); }}
  .author b {{ color: var(--text); }}
  .body {{ padding: 16px; overflow-wrap: break-word; }}
  .body > :first-child {{ margin-top: 0; }}
  p, ul, table, blockquote, pre, details {{ margin: 0 0 16px; }}
  ul {{ padding-left: 2em; }} li + li {{ margin-top: 0.25em; }}
  h2 {{ margin: 24px 0 16px; padding-bottom: 0.3em; font-size: 1.5em; line-height: 1.25; font-weight: 600;
    border-bottom: 1px solid var(--line); }}
  a {{ color: var(--link); }}
  table {{ display: block; width: max-content; max-width: 100%; overflow: auto; border-spacing: 0;
    border-collapse: collapse; }}
  th, td {{ padding: 6px 13px; border: 1px solid var(--line); }}
  tr:nth-child(even) td {{ background: var(--soft); }}
  code {{ padding: 0.2em 0.4em; background: var(--code); border-radius: 6px; white-space: break-spaces;
    font: 85% ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
  pre {{ padding: 16px; overflow: auto; font-size: 85%; background: var(--soft); border-radius: 6px; }}
  pre code {{ padding: 0; background: none; white-space: pre; font-size: 100%; }}
  blockquote {{ padding: 0 1em; color: var(--muted); border-left: 0.25em solid var(--line); }}
  summary {{ cursor: pointer; }}
</style>
<div class="comment">
<div class="author"><b>github-actions</b> bot commented</div>
<div class="body">{body}</div>
</div>
"""


Row = dict[str, Any]
Change = Callable[[int, Row], Row]


def framed(markdown: str) -> str:
    """A page with a comment as GitHub shows it."""
    return FRAME.format(body=MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown))


@dataclass(frozen=True, slots=True)
class Run:
    """The example with each answer changed by `change`, by its place; with more `policy`, and a baseline or none."""

    change: Change = lambda _place, row: row
    policy: str = ""
    baseline: bool = True


def _lost(place: int, row: Row, every: int = 1) -> Row:
    """The contexts of another question."""
    others = "This page lists the people of the project.\nIt was last changed in spring."
    return {**row, "contexts": [{"text": others, "id": f"people#{place}"}]} if place % every == 0 else row


def _say(text: str, every: int = 1) -> Change:
    return lambda place, row: {**row, "answer": text} if place % every == 0 else row


def _add(text: str, every: int = 1) -> Change:
    return lambda place, row: {**row, "answer": f"{row['answer']} {text}"} if place % every == 0 else row


INVENTED = "It was introduced in version 7.2 and costs 19 dollars a month for teams of up to 12 people."
RUNS: Mapping[str, Run] = {
    "pass": Run(),
    "pass-with-news": Run(_add(INVENTED, 50)),
    "unsettled": Run(_say("I don't know.", 18)),
    "fail-retrieval": Run(lambda place, row: _lost(place, row, 2)),
    "fail-abstains": Run(_say("I don't know.", 3)),
    "fail-invents": Run(_add(INVENTED, 2)),
    "fail-constant": Run(_say("Please read the documentation.")),
    "fail-must-pass": Run(_say("I don't know.", 500), 'must_pass = ["globs-relative", "answer-meaning"]\n'),
    "fail-below-floor": Run(lambda place, row: _lost(place, row, 2), baseline=False),
    "error": Run(lambda _place, row: {"id": row["id"], "error": "ConnectionError: no answer from the index"}),
    "first-run": Run(baseline=False),
}


def comments(folder: Path) -> Iterator[tuple[str, str]]:
    """The name and the Markdown of each comment; runs are in `folder`."""
    for name, run in RUNS.items():
        yield name, _gated(folder / name, run)


def _gated(folder: Path, run: Run) -> str:
    folder.mkdir(parents=True)
    rows = []
    for place, line in enumerate((EXAMPLE / "baseline" / "samples.jsonl").read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        found = record["answers"][0]["response"]
        row = {"id": record["sample"]["id"], "answer": found.get("answer", ""), "contexts": found.get("contexts", [])}
        row["latency_s"] = 0.02
        rows.append(run.change(place, row))
    (folder / "outputs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    policy = (EXAMPLE / "thresholds.toml").read_text(encoding="utf-8")
    policy = f"{run.policy}{policy}" if run.policy.startswith("must_pass") else f"{policy}\n{run.policy}"
    (folder / "thresholds.toml").write_text(policy, encoding="utf-8")
    command = ["gate", "--config", str(EXAMPLE / "ragstone.toml"), "--out", str(folder / "run")]
    command += ["--entrypoint", f"file:{folder / 'outputs.jsonl'}", "--thresholds", str(folder / "thresholds.toml")]
    command += ["--baseline", str(EXAMPLE / "baseline")] if run.baseline else []
    done = ragstone(command, EXAMPLE)
    report = folder / "run" / "report.md"
    assert report.is_file(), done.stderr
    return report.read_text(encoding="utf-8")
