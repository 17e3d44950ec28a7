"""`ragstone generate`: drafts of golden samples from documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ragstone.commands.context import redactor, run_to_end
from ragstone.commands.options import CONFIG, JSON_LINES, JUDGE, PATH, option, setting, settings_from, with_options
from ragstone.commands.output import say
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError, Interrupted, JudgeError, suggestion
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.drafting import Kind
from ragstone.judge.factory import build_judge
from ragstone.report.progress import progress_for
from ragstone.run.directory import CACHE
from ragstone.run.files import replace_text
from ragstone.tools.generate.convert import check_target, write_samples
from ragstone.tools.generate.drafts.generate import continued, generate, pair_lines
from ragstone.tools.generate.drafts.plan import (
    DEFAULT_SHARES,
    Generated,
    Material,
    Wanted,
    plan_text,
    read_material,
    require_writer,
)
from ragstone.tools.generate.drafts.rules import configured_samples
from ragstone.tools.generate.golden.command import named_share


@click.command(name="generate")
@click.argument("docs", nargs=-1, required=True, type=PATH, metavar="DOCS...")
@JSON_LINES
@option("--n", "count", type=click.IntRange(1, 10_000), default=50, help="Questions to write.")
@option(
    "--share",
    "shares",
    value="KIND=SHARE",
    multiple=True,
    help="Share of a kind of question, can be repeated; together 1, and none of the other kinds  "
    "[default: single-passage=0.35, multi-passage=0.15, multi-document=0.1, comparison=0.1, paraphrase=0.15, "
    "unanswerable=0.15]",
)
@option("--tries", type=click.IntRange(1, 10), default=3, help="Drafts for one question, at most.")
@option(
    "--pairs",
    value="FILE",
    help="Also write answers made worse on purpose and diluted contexts, as pairs for meta-eval.",
)
@option("--dry-run", is_flag=True, help="Show the plan and its cost, and write nothing.")
@option("--force", is_flag=True, help="Overwrite the output files.")
@with_options((CONFIG,), JUDGE[:2])
@setting("golden", help="Golden set that no question may repeat")
@setting("max_cost_usd")
@setting("refresh")
@setting("seed")
@setting("out", help="Directory of the cache of replies")
def command(
    docs: tuple[Path, ...],
    output: Path,
    count: int,
    shares: tuple[str, ...],
    tries: int,
    pairs: Path | None,
    dry_run: bool,
    force: bool,
    **flags: object,
) -> int:
    """Write questions from the team's own documents, as drafts for a review.

    DOCS are files or folders: Markdown, text, HTML, PDF and DOCX, one document each, or JSON Lines with id and text.
    Each question has a reference answer, evidence word for word, and relevant ids, and is checked by rule and by a
    second reading. Drafts count in no check until a person has reviewed them. An interrupted run can
    be continued: the replies are cached in DIR.

    \b
    Example:
      ragstone generate docs -o drafts.jsonl --judge openai:gpt-5.4-mini --dry-run
    """
    settings = settings_from(flags)
    require_writer(settings.judge)
    wanted = Wanted(count, _shares(shares), tries, settings.run.seed, pairs is not None)
    for file in (output, pairs):
        if file is not None:
            check_target(file, force=force or dry_run)
    if output == pairs:
        raise ConfigError("-o and --pairs name the same file.", where=str(output))
    existing = configured_samples(settings, required=bool(flags.get("golden")))
    material = read_material(docs)
    if dry_run:
        say(plan_text(material, wanted, settings.judge))
        return 0
    found = _generate(settings, material, wanted, existing)
    say(found.text())
    return _write(found, output, pairs)


def _generate(settings: Settings, material: Material, wanted: Wanted, existing: Sequence[Sample]) -> Generated:
    redact = redactor(settings)
    cache = settings.path(settings.run.out) / CACHE
    # Each round waits for the one before, so a batch would take days.
    live = settings.judge.model_copy(update={"batch": False})
    judge = build_judge(live, golden_set=GoldenSet(existing), cache=cache, environ=os.environ, tell_secret=redact.add)

    async def work() -> Generated:
        try:
            progress = progress_for(sys.stderr, doing="Writing")
            return await generate(judge, material, wanted, existing=existing, progress=progress, redact=redact)
        finally:
            await judge.close()

    try:
        found = run_to_end(work())
    except Interrupted:
        say(f"The replies are cached in {cache.parent}: run the same command again to continue.", err=True)
        raise
    for note in getattr(judge, "notes", ()):
        say(f"note: {note}", err=True)
    return found


def _write(found: Generated, output: Path, pairs: Path | None) -> int:
    """Write what was made; the exit code. Raises JudgeError if the judge ended the work, or nothing was accepted."""
    if found.samples:
        write_samples(found.samples, output, force=True)
        say(f"wrote {counted(len(found.samples), 'draft')} to {output}")
    if pairs is not None and found.pairs:
        replace_text(pairs, pair_lines(found.pairs))
        say(f"wrote {counted(len(found.pairs), 'pair')} to {pairs}. Then: ragstone meta-eval {pairs}")
    if found.stopped is not None:
        raise continued(found.stopped)
    if not found.samples:
        raise JudgeError(
            "no question was accepted, so nothing was written.",
            hint="The reasons are above. Another model, or documents with more text, may help.",
        )
    say(f"Review them: ragstone review {output}")
    return 0


def _shares(given: tuple[str, ...]) -> dict[Kind, float]:
    if not given:
        return dict(DEFAULT_SHARES)
    kinds = {str(kind): kind for kind in Kind}
    shares: dict[Kind, float] = {}
    for text in given:
        name, value = named_share(text)
        if name not in kinds:
            raise ConfigError(f"--share {text}: unknown kind '{name}'.", hint=suggestion(name, kinds))
        if not 0.0 <= value <= 1.0 or kinds[name] in shares:
            raise ConfigError(
                f"--share {text}: expected KIND=SHARE, each kind once.", hint="For example: comparison=0.2"
            )
        shares[kinds[name]] = value
    if abs(sum(shares.values()) - 1.0) > 1e-6:
        raise ConfigError(f"the shares add up to {sum(shares.values()):g}, not to 1.", hint="Kinds left out get none.")
    if {kind for kind, share in shares.items() if share} == {Kind.PARAPHRASE}:
        raise ConfigError("paraphrases alone can't be written: they reword other questions of the run.")
    return shares
