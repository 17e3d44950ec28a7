"""`ragstone comment`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ragstone.commands.options import PATH, option
from ragstone.commands.output import say


@click.command(name="comment")
@click.argument("run", type=PATH, default="ragstone-run")
@option("--name", default="ragstone", help="Tells the comments of several gates apart.")
def command(run: Path, name: str) -> None:
    """Post the report of RUN on the merge request of this job: one comment, updated from run to run.

    On GitLab CI with a token in GITLAB_TOKEN, on Azure Pipelines with $(System.AccessToken) in SYSTEM_ACCESSTOKEN. In a
    job without a merge request, it does nothing. Exits with 7 if the platform refuses.
    """
    from ragstone.job.comment import comment

    say(comment(run, os.environ, name=name))
