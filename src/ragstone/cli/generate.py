"""`ragstone generate`: drafts of golden samples from documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import click

from ragstone.cli.context import redactor, run_to_end
from ragstone.cli.convert import check_target, write_samples
from ragstone.cli.options import CONFIG, JSON_LINES, PATH, option, setting, settings_from
from ragstone.cli.output import say
from ragstone.errors import ConfigError, Interrupted, JudgeError, suggestion
from ragstone.evaluation.directory import CACHE
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.redact import Redactor
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge
from ragstone.printable import shell_word, shown_name
from ragstone.progress import progress_for
from ragstone.settings.settings import Settings
from ragstone.tools.generate.drafts.drafter import Kind
from ragstone.tools.generate.drafts.generate import continued, drafter_of, generate, pair_lines
from ragstone.tools.generate.drafts.perturb import (
    Perturbation,
    add_paraphrases,
    draw,
    rows_by_rule,
    with_free_ids,
)
from ragstone.tools.generate.drafts.plan import (
    DEFAULT_SHARES,
    Generated,
    Material,
    Wanted,
    cost_text,
    paraphrase_cost,
    plan_text,
    read_material,
    require_writer,
)
from ragstone.tools.generate.drafts.rules import configured_samples

_Result = TypeVar("_Result")


@click.command(name="generate")
@click.argument("docs", nargs=-1, type=PATH, metavar="[DOCS...]")
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
@option(
    "--pairs",
    value="FILE",
    help="Also write answers made worse on purpose and diluted contexts, as pairs for calibrate.",
)
@option(
    "--perturb",
    "perturbations",
    value="KINDS",
    type=str,
    help=f"Write questions of the golden set with changes instead: {', '.join(Perturbation)}.",
)
@option("--dry-run", is_flag=True, help="Show the plan and its cost, and write nothing.")
@option("--force", is_flag=True, help="Overwrite the output files.")
@CONFIG
@setting("judge")
@setting("golden", help="Golden set that no question may repeat, or whose questions are changed")
@setting("max_cost_usd")
def command(
    docs: tuple[Path, ...],
    output: Path,
    count: int,
    shares: tuple[str, ...],
    pairs: Path | None,
    perturbations: str | None,
    dry_run: bool,
    force: bool,
    **flags: object,
) -> int:
    """Write questions from the team's own documents, as drafts for a review.

    DOCS are files or folders: Markdown, text, HTML, PDF and DOCX, one document each, or JSON Lines with id and text.
    Each question has a reference answer, evidence word for word, and relevant ids, and is checked by rule and by a
    second reading. Drafts count in no check until a person has reviewed them. An interrupted run can
    be continued: the replies are cached in the run directory of the config.

    With --perturb, the questions are those of up to --n samples of the golden set, with typos, in capitals and so on. A
    slice of the policy can gate each kind by its tag, such as perturbed:typos. Only paraphrases need a language model.

    \b
    Examples:
      ragstone generate docs -o drafts.jsonl --judge openai:gpt-5.4-mini --dry-run
      ragstone generate --perturb typos,injection --golden golden.jsonl -o robustness.jsonl
    """
    settings = settings_from(flags)
    if perturbations is not None:
        if docs or shares or pairs:
            raise ConfigError("--perturb takes its questions from the golden set: leave out DOCS, --share and --pairs.")
        check_target(output, force=force or dry_run)
        kinds = _perturbations(perturbations)
        return _perturb(settings, kinds, output, count, required=bool(flags.get("golden")), dry_run=dry_run)
    if not docs:
        raise ConfigError("no documents.", hint="Name files or folders: ragstone generate DOCS -o FILE")
    require_writer(settings.judge)
    wanted = Wanted(count, _shares(shares), seed=settings.run.seed, pairs=pairs is not None)
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
    async def work(judge: Judge, redact: Redactor) -> Generated:
        progress = progress_for(sys.stderr, doing="Writing")
        return await generate(judge, material, wanted, existing=existing, progress=progress, redact=redact)

    return _with_judge(settings, existing, work)


def _with_judge(
    settings: Settings, samples: Sequence[Sample], work: Callable[[Judge, Redactor], Awaitable[_Result]]
) -> _Result:
    """The result of `work`, whose judge caches its replies."""
    redact = redactor(settings)
    cache = settings.path(settings.run.out) / CACHE
    judge = build_judge(
        settings.judge, golden_set=GoldenSet(samples), cache=cache, environ=os.environ, tell_secret=redact.add
    )

    async def work_and_close() -> _Result:
        try:
            return await work(judge, redact)
        finally:
            await judge.close()

    try:
        result = run_to_end(work_and_close())
    except Interrupted:
        say(
            f"The replies are cached in {shown_name(str(cache.parent))}: run the same command again to continue.",
            err=True,
        )
        raise
    for note in getattr(judge, "notes", ()):
        say(f"note: {note}", err=True)
    return result


def _perturb(
    settings: Settings, kinds: Collection[Perturbation], output: Path, count: int, *, required: bool, dry_run: bool
) -> int:
    """Write rows of `kinds` for up to `count` samples of the golden set; the exit code."""
    by_model = Perturbation.PARAPHRASE in kinds
    if by_model:
        require_writer(settings.judge)
    golden = configured_samples(settings, besides=output, required=required)
    drawn = draw(golden, count, seed=settings.run.seed)
    if not drawn:
        raise ConfigError("there is no question to change.", hint="Name a golden set with --golden.")
    perturbed = rows_by_rule(drawn, kinds, settings.run.seed)
    if dry_run:
        say(perturbed.text())
        if by_model:
            say(f"  paraphrase, with {settings.judge.name}: {cost_text(paraphrase_cost(settings.judge, drawn))}")
        return 0
    if by_model:

        async def work(judge: Judge, redact: Redactor) -> None:
            await add_paraphrases(perturbed, drawn, drafter_of(judge), judge.identity.label(), redact)

        _with_judge(settings, golden, work)
    say(perturbed.text())
    if perturbed.rows:
        taken = [sample.id for sample in golden]
        write_samples(with_free_ids(perturbed.rows, taken), output, force=True)
        say(f"wrote {counted(len(perturbed.rows), 'row')} to {shown_name(str(output))}")
    if perturbed.stopped is not None:
        raise continued(perturbed.stopped)
    if any(row.draft for row in perturbed.rows):
        say(f"Review the paraphrases: ragstone review {shell_word(str(output))}")
    return 0


def _perturbations(text: str) -> frozenset[Perturbation]:
    names = {str(kind): kind for kind in Perturbation}
    kinds = set()
    for name in text.replace(",", " ").split():
        if name not in names:
            raise ConfigError(f"--perturb {text}: unknown kind '{name}'.", hint=suggestion(name, names))
        kinds.add(names[name])
    if not kinds:
        raise ConfigError("--perturb names no kind.", hint=f"One or more of: {', '.join(names)}.")
    return frozenset(kinds)


def _write(found: Generated, output: Path, pairs: Path | None) -> int:
    """Write what was made; the exit code. Raises JudgeError if the judge ended the work, or nothing was accepted."""
    if found.samples:
        write_samples(found.samples, output, force=True)
        say(f"wrote {counted(len(found.samples), 'draft')} to {shown_name(str(output))}")
    if pairs is not None and found.pairs:
        replace_text(pairs, pair_lines(found.pairs))
        questions = counted(len(found.pairs), "question")
        then = f"ragstone calibrate {shell_word(str(pairs))} --method statements"
        say(f"wrote pairs of {questions} to {shown_name(str(pairs))}. Then: {then}")
    if found.stopped is not None:
        raise continued(found.stopped)
    if not found.samples:
        raise JudgeError(
            "no question was accepted, so nothing was written.",
            hint="The reasons are above. Another model, or documents with more text, may help.",
        )
    say(f"Review them: ragstone review {shell_word(str(output))}")
    return 0


def _named_share(text: str) -> tuple[str, float]:
    """Name and share of ``NAME=SHARE``; -1 for what is not a number."""
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        return name, -1.0


def _shares(given: tuple[str, ...]) -> dict[Kind, float]:
    if not given:
        return dict(DEFAULT_SHARES)
    kinds = {str(kind): kind for kind in Kind}
    shares: dict[Kind, float] = {}
    for text in given:
        name, value = _named_share(text)
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
