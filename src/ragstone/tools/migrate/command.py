"""`ragstone migrate`: an evaluation of another tool as files of Ragstone."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.commands.options import PATH, option
from ragstone.commands.output import say
from ragstone.errors import ConfigError
from ragstone.formatting import counted


@click.command(name="migrate")
@click.argument("path", type=PATH, default=".")
@option("--tool", value="NAME", choices=("ragas", "deepeval", "promptfoo"), help="The tool, where several were used.")
@option("--floor", "floors", value="METRIC=VALUE", multiple=True, help="A bound of a metric; can be repeated.")
@option("-o", "--output", "out", value="DIR", default=Path(), help="Folder to write to.")
@option("--force", is_flag=True, help="Overwrite existing files.")
@option("--compare", is_flag=True, help="Only show where the migrated scores and those of the last gate run differ.")
def command(path: Path, tool: str | None, floors: tuple[str, ...], out: Path, force: bool, compare: bool) -> None:
    """Migrate an evaluation of ragas, DeepEval or promptfoo.

    PATH is a file, or a folder to look into: a table of ragas with question, answer and contexts; a test run or a test
    file of DeepEval; a config or results of promptfoo. Writes golden/golden.jsonl, migrated/ (recorded answers and
    scores, and a page that says what was translated to what), thresholds.toml and ragstone.toml. Nothing is executed.

    \b
    Examples:
      ragstone migrate results.csv --floor faithfulness=0.8
      ragstone migrate .
      ragstone gate; ragstone migrate --compare
    """
    if compare:
        from ragstone.tools.migrate.differences import differences

        say(differences(out))
        return
    from ragstone.tools.migrate.find import find_evaluation
    from ragstone.tools.migrate.write import PAGE, migrate

    found = find_evaluation(path, tool, _bounds(floors))
    done = migrate(found, out, force=force)
    say(f"read   {', '.join(found.files)} ({found.tool}): {counted(len(done.golden), 'case')}")
    for place in done.files:
        say(f"wrote  {out / place}")
    if done.left_out:
        say(f"       {counted(done.left_out, 'thing')} could not be translated: see {out / PAGE}")
    if done.scores:
        say(f"next   ragstone compare {out / 'migrated/scores.jsonl'} --thresholds {out / done.policy}")
    say("next   ragstone gate" if out == Path() else f"next   cd {out} && ragstone gate")


def _bounds(given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        try:
            number = float(value) if sign and name.strip() else -1.0
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            raise ConfigError(f"--floor {text}: expected METRIC=VALUE.", hint="For example: --floor faithfulness=0.8")
        found[name.strip()] = number
    return found
