"""`ragstone generate`: drafts of golden samples from documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ragstone.cli.context import redactor, run_until_done
from ragstone.cli.golden_file import check_target, write_samples
from ragstone.cli.options import (
    CONFIG,
    JSON_LINES,
    PATH,
    option,
    setting,
    settings_from,
)
from ragstone.cli.output import say
from ragstone.errors import ConfigError, Interrupted, JudgeError, suggestion
from ragstone.evaluation.directory import CACHE
from ragstone.evaluation.run_files import replace_text
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.printable import shell_word, shown_name
from ragstone.progress import progress_for
from ragstone.settings.settings import Settings
from ragstone.tools.generate.checks import configured_samples
from ragstone.tools.generate.generate import generate, hint_to_continue, pair_lines
from ragstone.tools.generate.generation_plan import (
    GenerationResult,
    Material,
    WantedQuestions,
    plan_text,
    read_material,
    require_writer,
)
from ragstone.tools.generate.perturb import Perturbation, draw_samples, perturb


@click.command(name="generate")
@click.argument("docs", nargs=-1, type=PATH, metavar="[DOCS...]")
@JSON_LINES
@option(
    "--n",
    "count",
    type=click.IntRange(1, 10_000),
    default=50,
    help="Questions to write.",
)
@option(
    "--pairs",
    value="FILE",
    help="Also write pairs for `ragstone calibrate`: each answer with a worse one, each context with a diluted one.",
)
@option(
    "--perturb",
    "perturbations",
    value="KINDS",
    type=str,
    help=f"Instead, write changed questions of the golden set. Kinds: {', '.join(Perturbation)}.",
)
@option(
    "--dry-run", is_flag=True, help="Show the plan and its cost, and write nothing."
)
@option("--force", is_flag=True, help="Overwrite the output files.")
@CONFIG
@setting("judge")
@setting(
    "golden",
    help="Golden set that no question may repeat, or whose questions are changed",
)
@setting("max_cost_usd")
def command(
    docs: tuple[Path, ...],
    output: Path,
    count: int,
    pairs: Path | None,
    perturbations: str | None,
    dry_run: bool,
    force: bool,
    **flags: object,
) -> int:
    """Write questions from the team's own documents, as drafts for a review.

    DOCS are files or folders of Markdown, text, HTML, PDF and DOCX; each file is one
    document. A question is about one passage or two, or is unanswerable. It has a
    reference answer, verbatim evidence and relevant ids, and is checked by rules and by
    a second reading. Drafts count in no check until a person has reviewed them. An
    interrupted command can be continued: the replies are cached in the run directory of
    the config.

    With --perturb, up to --n questions of the golden set are written with typos, in
    capitals and so on. A slice of the policy can gate each kind by its tag, such as
    perturbed:typos. This needs no language model.

    \b
    Examples:
      ragstone generate docs -o drafts.jsonl --judge openai:gpt-5.4-mini --dry-run
      ragstone generate --perturb typos,injection --golden golden.jsonl -o robustness.jsonl
    """
    settings = settings_from(flags)
    if perturbations is not None:
        if docs or pairs:
            raise ConfigError(
                "--perturb takes its questions from the golden set.",
                hint="Leave out DOCS and --pairs.",
            )
        check_target(output, force=force or dry_run)
        kinds = _perturbations(perturbations)
        golden = configured_samples(
            settings, without=output, required=bool(flags.get("golden"))
        )
        drawn_samples = draw_samples(golden, count, seed=0)
        if not drawn_samples:
            raise ConfigError(
                "the golden set has no question to change.",
                hint="Name another one with --golden.",
            )
        perturbed = perturb(drawn_samples, kinds)
        say(perturbed.text())
        if perturbed.rows and not dry_run:
            write_samples(perturbed.rows, output, force=True)
            rows = counted(len(perturbed.rows), "row")
            say(f"wrote {rows} to {shown_name(str(output))}")
        return 0
    if not docs:
        raise ConfigError(
            "no documents are named.",
            hint="Name files or folders: ragstone generate DOCS -o FILE",
        )
    require_writer(settings.judge)
    wanted = WantedQuestions(count, with_pairs=pairs is not None)
    for file in filter(None, (output, pairs)):
        check_target(file, force=force or dry_run)
    if output == pairs:
        raise ConfigError("-o and --pairs name the same file.", where=str(output))
    existing = configured_samples(settings, required=bool(flags.get("golden")))
    material = read_material(docs)
    if dry_run:
        say(plan_text(material, wanted, settings.judge))
        return 0
    generated = _generate(settings, material, wanted, existing)
    say(generated.text())
    return _write(generated, output, pairs)


def _generate(
    settings: Settings,
    material: Material,
    wanted: WantedQuestions,
    existing: Sequence[Sample],
) -> GenerationResult:
    """Let the judge in `settings` write questions. Its replies are cached, so that an
    interrupted command can be continued."""
    redact = redactor(settings)
    cache = settings.path(settings.run.out) / CACHE
    judge = build_judge(
        settings.judge,
        golden_set=GoldenSet(existing),
        cache=cache,
        environ=os.environ,
        tell_secret=redact.add,
    )

    async def write() -> GenerationResult:
        progress = progress_for(sys.stderr, "Writing")
        try:
            return await generate(
                judge,
                material,
                wanted,
                existing=existing,
                progress=progress,
                redact=redact,
            )
        finally:
            await judge.close()

    try:
        generated = run_until_done(write())
    except Interrupted:
        folder = shown_name(str(cache.parent))
        say(
            f"The replies are cached in {folder}. Run the same command again to continue.",
            err=True,
        )
        raise
    for note in getattr(judge, "notes", ()):
        say(f"note: {note}", err=True)
    return generated


def _perturbations(text: str) -> frozenset[Perturbation]:
    """The kinds that --perturb names. Raises ConfigError."""
    kinds = set()
    for name in text.replace(",", " ").split():
        if name not in list(Perturbation):
            raise ConfigError(
                f"unknown kind '{name}'.",
                where="--perturb",
                hint=suggestion(name, Perturbation),
            )
        kinds.add(Perturbation(name))
    if not kinds:
        raise ConfigError(
            "--perturb names no kind.",
            hint=f"Name one or more of: {', '.join(Perturbation)}.",
        )
    return frozenset(kinds)


def _write(generated: GenerationResult, output: Path, pairs: Path | None) -> int:
    """Write the drafts and the pairs, and return the exit code. Raises JudgeError if
    the judge stopped early, or no question was accepted."""
    if generated.samples:
        write_samples(generated.samples, output, force=True)
        say(
            f"wrote {counted(len(generated.samples), 'draft')} to {shown_name(str(output))}"
        )
    if pairs is not None and generated.pairs:
        replace_text(pairs, pair_lines(generated.pairs))
        questions = counted(len(generated.pairs), "question")
        command = f"ragstone calibrate {shell_word(str(pairs))} --method statements"
        pairs_file = shown_name(str(pairs))
        say(f"wrote pairs of {questions} to {pairs_file}. Then: {command}")
    if generated.stopped is not None:
        raise hint_to_continue(generated.stopped)
    if not generated.samples:
        raise JudgeError(
            "no question was accepted, so nothing was written.",
            hint="The reasons are above. Try another model, or documents with more text.",
        )
    say(f"Review them: ragstone review {shell_word(str(output))}")
    return 0
