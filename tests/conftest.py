from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.needs import ALLOWED_SKIPS

# The same examples in each run: a change is blamed for what it does. `--hypothesis-profile=default` draws others.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")
HERE = Path(__file__).parent
# What `--fast` leaves out: tests of whole commands, whole jobs and hostile peers, which start processes and servers by
# the hundred, and simulations. A folder, a module, or one test.
SLOW = (
    "api/test_api.py",
    "api/test_data.py",
    "api/test_notebook.py",
    "api/test_package.py::test_the_wheel_holds_the_marker_of_its_types",
    "bench",
    "github/api/test_base_files.py",
    "github/api/test_client.py",
    "github/api/test_comment.py",
    "github/api/test_issue.py",
    "commands",
    "container",
    "examples",
    "gate/test_properties.py",
    "golden/test_hostile.py",
    "history/test_file.py::test_a_year_of_20_merges_a_week_with_200_samples_stays_under_5_mb",
    "image",
    "github/test_base_commit.py",
    "github/test_baseline.py",
    "github/test_baseline_in_jobs.py",
    "github/test_canaries.py",
    "github/test_checkout_files.py",
    "github/test_forks.py",
    "github/test_history_in_jobs.py",
    "github/test_hostile_checkout.py",
    "github/test_hostile_text.py",
    "github/test_identity.py",
    "github/test_one_way.py",
    "github/test_policy_changes.py",
    "github/test_run_job.py",
    "github/test_trusted_config.py",
    "github/test_workflows.py",
    "judge/llm",
    "judge/offline/test_judge.py::test_another_process_with_another_hash_seed_gives_the_same_judgements_to_the_last_digit",
    "judge/test_cache.py::test_processes_share_a_file",
    "judge/test_lifecycle.py",
    "judge/test_money.py",
    "judge/test_untrusted_text.py",
    "report/test_command.py",
    "report/test_escape.py::test_hostile_text_stays_in_its_table_cell",
    "report/test_hostile_reports.py",
    "report/test_markdown.py::test_a_huge_report_fits_any_limit_with_whole_tables",
    "report/test_markdown.py::test_text_that_grows_when_escaped_costs_detail_and_not_the_report",
    "evaluation/test_redact.py::test_base64_is_found_at_any_offset",
    "report/test_templates.py",
    "evaluation/test_executors.py",
    "evaluation/test_lock.py",
    "stats/test_agreement.py::test_intervals_cover_the_coefficient_of_the_population",
    "stats/test_drift.py::test_where_nothing_changes_hardly_any_look_alarms",
    "stats/test_family.py::test_interval_and_decision_never_contradict_each_other",
    "stats/test_intervals.py::test_intervals_of_heaped_scores_cover_the_truth",
    "stats/test_intervals.py::test_intervals_of_rare_large_losses_cover_the_truth",
    "stats/test_ppi.py::test_the_interval_covers_the_mean_of_the_labels",
    "system/test_command_line.py",
    "system/test_environment.py",
    "system/test_http_service.py",
    "system/test_python_worker.py",
    "system/test_recorded.py::test_memory_does_not_grow_with_the_size_of_the_records",
    "test_contributing.py",
    "test_needs.py",
    "pipeline/test_base_commit.py",
    "pipeline/test_decide.py",
    "pipeline/test_judge_watch.py",
    "pipeline/test_pairwise.py",
    "pipeline/test_rejudge.py",
    "evaluation/test_rescore.py",
    "test_pytest_plugin.py",
    "tools/generate/drafts/test_generate.py",
    "tools/generate/test_convert.py",
    "tools/generate/test_review.py",
    "tools/history_page/test_command.py",
    "tools/judging/test_pairs.py",
    "tools/monitor/test_command.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests of whole commands and jobs, and simulations")
    parser.addoption("--no-skips", action="store_true", help="fail on any skip that tests/needs.py does not allow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    slow = collection_path.is_relative_to(HERE) and collection_path.relative_to(HERE).as_posix() in SLOW
    return True if slow and config.getoption("--fast") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        slow = [item for item in items if item.nodeid.removeprefix("tests/").partition("[")[0] in SLOW]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and forbidden_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in forbidden_skips(config):
        terminalreporter.write_line(f"ERROR --no-skips: {line}", red=True)


def forbidden_skips(config: pytest.Config) -> list[str]:
    """The tests and modules that were skipped although `--no-skips` is given, each with its reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not config.getoption("--no-skips") or reporter is None:  # a process of pytest-xdist has no reporter
        return []
    lines = []
    for report in reporter.stats.get("skipped", []):
        _, _, message = report.longrepr
        reason = message.removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED_SKIPS):
            lines.append(f"{report.nodeid} was skipped: {reason}")
    return lines


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users get through to, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
