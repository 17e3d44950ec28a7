"""Two jobs that comment under the same marker: none hides the other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ragstone.github.api.blocks import Block, is_settled, joined, others_beside

RED = Block("a" * 40, "0" * 16, 900, 1, "gate search", "## ❌ Blocked\n\nThree questions got worse.\n")
GREEN = replace(RED, writer="1" * 16, label="gate billing", text="## ✅ Passed\n")


def comment(*blocks: Block) -> str:
    body = ""
    for block in blocks:
        body = joined(block, others_beside(block, body))
    return body


def test_a_job_alone_has_the_comment_to_itself() -> None:
    assert comment(RED).startswith("## ❌ Blocked\n\nThree questions got worse.\n\n<!-- ragstone:block:")
    assert comment(GREEN, GREEN, replace(GREEN, run_id=901)).count("## ✅ Passed") == 1


@pytest.mark.parametrize(
    "second",
    [GREEN, replace(GREEN, run_id=901), replace(GREEN, writer=RED.writer), replace(GREEN, attempt=2)],
    ids=["another job", "another workflow", "another cell of a matrix", "another job, run again"],
)
def test_a_green_job_leaves_the_red_one_of_the_same_commit(second: Block) -> None:
    body = comment(RED, second)
    assert body.startswith("> [!NOTE]\n> Several jobs comment here. Give each its own `comment-id`")
    assert f"### {RED.label}\n\n{RED.text.strip()}" in body
    assert f"### {second.label}\n\n{second.text.strip()}" in body
    assert comment(RED, second, replace(GREEN, writer="3" * 16)).count("###") == 3


@pytest.mark.parametrize(
    "later",
    [replace(RED, text="## ✅ Passed\n", attempt=2), replace(RED, text="## ✅ Passed\n", run_id=901)],
    ids=["run again", "another run"],
)
def test_a_run_again_replaces_its_own_block(later: Block) -> None:
    assert comment(RED, later) == comment(later)
    body = comment(RED, GREEN, later)
    assert "Blocked" not in body
    assert body.count("## ✅ Passed") == 2


def test_a_block_that_another_job_wrote_over_is_missed_and_one_that_was_replaced_is_not() -> None:
    assert not is_settled(RED, comment(GREEN))
    assert not is_settled(replace(RED, text="## ❌ Blocked\n\nTwo.\n"), comment(RED))  # of the same matrix
    assert is_settled(RED, comment(RED, GREEN))
    assert is_settled(
        RED, comment(RED, *(replace(GREEN, writer=f"{n}" * 16, text="#\n" + "x" * 30_000) for n in range(3)))
    )
    assert is_settled(RED, comment(replace(RED, commit="b" * 40)))
    assert is_settled(RED, comment(replace(RED, attempt=2, text="## ✅ Passed\n")))


def test_a_new_commit_replaces_all() -> None:
    pushed = replace(GREEN, commit="b" * 40)
    assert comment(RED, GREEN, pushed) == comment(pushed)


def test_line_ends_that_github_changed_hide_no_block() -> None:
    body = comment(RED).replace("\n", "\r\n")
    assert RED.text.strip() in joined(GREEN, others_beside(GREEN, body))


@pytest.mark.attack(by="text", tries="pose as another job's report", stopped_by="no marker of a block in it")
def test_a_report_can_not_contain_a_block() -> None:
    forged = replace(
        GREEN, text=f"An answer:\n{replace(GREEN, writer='a' * 16, text='').marker}\nforged\n{GREEN.marker}"
    )
    others = others_beside(RED, comment(forged))
    assert len(others) == 1
    assert comment(forged).count("<!-- ragstone:block:") == 1


def test_blocks_of_many_jobs_are_cut_to_their_first_line() -> None:
    long = [replace(RED, writer=str(number) * 16, text="## ❌ Blocked\n\n" + "x" * 15_000) for number in range(4)]
    others = others_beside(GREEN, comment(*long[:3]))
    assert all(len(other.marked) < 300 for other in others)
    assert all(other.text == "## ❌ Blocked" for other in others)
    assert len(comment(*long)) < 65_000
