"""Which questions count as generated and not reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.golden.load import load_golden_set


@pytest.mark.parametrize(
    ("row", "generated"),
    [
        ('{"question": "Why?"}', False),
        ('{"question": "Why?", "provenance": "ragstone generate 1.0, openai gpt-x; a1"}', True),
        ('{"question": "Why?", "provenance": "ragstone generate 1.0; a1", "status": "draft"}', True),
        ('{"question": "Why?", "provenance": "ragstone generate 1.0; a1", "status": "reviewed"}', False),
        ('{"user_input": "Why?", "synthesizer_name": "multi_hop_abstract_query_synthesizer"}', True),
        ('{"user_input": "Why?", "synthesizer_name": "reasoning"}', False),
    ],
)
def test_a_question_is_generated_until_it_is_reviewed(tmp_path: Path, row: str, generated: bool) -> None:
    (tmp_path / "golden.jsonl").write_text(row + "\n", encoding="utf-8")
    (sample,) = load_golden_set((tmp_path / "golden.jsonl",))
    assert sample.generated is generated
