"""The pytest plugin: a run of the golden set as a fixture, and an assertion that its gate
passes.

pytest loads this module wherever Ragstone is installed, so it imports only pytest until
a test uses it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragstone.api import Run

__all__ = ["assert_gate", "ragstone_run"]


@pytest.fixture(scope="session")
def ragstone_run(pytestconfig: pytest.Config) -> Run:
    """The run of the golden set, as `ragstone gate` makes it with the config in
    pytest's root directory.

    It is made once in a session, and its directory has the reports. If there is an
    error, the tests that use it fail.
    """
    import os

    from ragstone.api import Run
    from ragstone.cli.context import redactor, run_context
    from ragstone.errors import RagstoneError
    from ragstone.pipeline.gate import gate
    from ragstone.pipeline.open_request import open_request
    from ragstone.report.escape import escape_terminal
    from ragstone.settings.load import load_settings
    from ragstone.settings.settings import Settings

    redact = redactor(Settings())
    try:
        settings = load_settings(directory=pytestconfig.rootpath, environ=os.environ)
        redact = redactor(settings)
        with (
            run_context(settings) as context,
            # In a thread of its own, because the test may already run an event loop.
            ThreadPoolExecutor(1) as executor,
            open_request(settings, context) as opened_request,
        ):
            work = gate(opened_request.request, context)
            outcome = executor.submit(asyncio.run, work).result()
        return Run(outcome.run)
    except RagstoneError as error:
        pytest.fail(escape_terminal(redact(str(error))), pytrace=False)


def assert_gate(run: Run) -> None:
    """Fail the test, and show the report, if the gate of `run` blocks. An inconclusive
    verdict blocks if the policy says so.

    `run` is the fixture `ragstone_run`, or was opened from a directory that `ragstone
    gate` wrote.
    """
    from ragstone.pipeline.stored_report import read_report
    from ragstone.report.terminal import render_text

    document = read_report(run.directory)
    if document is None:
        pytest.fail(
            f"{run.path} has no verdict. Run `ragstone gate`, or use the fixture ragstone_run.",
            pytrace=False,
        )
    if document.verdict.exit_code != 0:
        pytest.fail(render_text(document), pytrace=False)
