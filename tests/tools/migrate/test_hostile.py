"""`ragstone migrate` on files that mean harm: nothing is executed, nothing outside is read, no traceback, no hang."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import RagstoneError
from ragstone.tools.migrate.find import find_evaluation
from ragstone.tools.migrate.write import migrate

DEEP = "[" * 100_000 + "]" * 100_000
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
TEST: dict[str, Any] = {"vars": {"question": "Why?"}}


def config(**fields: Any) -> str:
    return json.dumps({"prompts": ["{{question}}"], "tests": [TEST], **fields})


def run(*cases: dict[str, Any]) -> str:
    return json.dumps({"testCases": list(cases)})


def nested(levels: int) -> Any:
    value: Any = "{{prompt}}"
    for _ in range(levels):
        value = {"a": value}
    return value


FILES: dict[str, tuple[str, str]] = {
    "JSON that is nested deeply": ("promptfooconfig.json", DEEP),
    "a body that is nested deeply": (
        "promptfooconfig.json",
        config(providers=[{"id": "http://127.0.0.1:1/x", "config": {"body": nested(300)}}]),
    ),
    "a run that is nested deeply": (".deepeval/.latest_test_run.json", DEEP),
    "a table that is nested deeply": ("results.jsonl", f'{{"question": "Why?", "contexts": {DEEP}}}'),
    "Python that is nested deeply": ("test_rag.py", f"import deepeval\nx = {DEEP}\n"),
    "Python with a long chain": ("test_rag.py", "import deepeval\nx = y" + ".y" * 100_000),
    "Python that is no text": ("test_rag.py", "import deepeval\n\0"),
    "Python with a huge number": ("test_rag.py", f"import deepeval\nFaithfulnessMetric(threshold={'9' * 4_000})\n"),
    "a billion laughs": ("promptfooconfig.yaml", f"{LAUGHS}prompts: [x]\ntests: *j\n"),
    "an alias of itself": ("promptfooconfig.yaml", "prompts: [x]\ntests: &t [*t]\n"),
    "a tag of Python": (
        "promptfooconfig.yaml",
        "prompts: [x]\ntests: !!python/object/apply:os.system ['touch done']\n",
    ),
    "a name outside": ("promptfooconfig.json", config(tests=["file://../outside.json", "file:///etc/passwd"])),
    "a glob outside": ("promptfooconfig.json", config(tests="file://../*.json")),
    "a config that names itself": (
        "promptfooconfig.json",
        config(tests=["file://promptfooconfig.json"], defaultTest="file://promptfooconfig.json"),
    ),
    "a bomb of variables": (
        "promptfooconfig.json",
        config(tests=[{"vars": {name: ["a"] * 50 for name in "abcdefgh"}}]),
    ),
    "a prompt that loops": (
        "promptfooconfig.json",
        config(
            prompts=["{% for a in x %}" * 3 + "{{a}}" + "{% endfor %}" * 3],
            tests=[{"vars": {"x": [{"a": n} for n in range(1000)]}}],
        ),
    ),
    "a prompt with more blocks than Python compiles": (
        "promptfooconfig.json",
        config(prompts=["{% for a in x %}" * 40 + "{{a}}" + "{% endfor %}" * 40], tests=[{"vars": {"x": ["a", 1]}}]),
    ),
    "a prompt that reaches for the interpreter": (
        "promptfooconfig.json",
        config(
            prompts=["{{ ''.__class__.__mro__[1] }}{{ cycler.__init__.__globals__.os.system('touch done') }}"],
            tests=[{"vars": {}}],
        ),
    ),
    "types that are none": (
        "promptfooconfig.json",
        config(
            prompts=[None, 3, {}],
            providers=[None, 3, [], {"id": None, "config": "x"}],
            defaultTest=3,
            tests=[
                None,
                3,
                [],
                {"vars": 3, "assert": "x", "options": 3},
                {"vars": {"question": {"a": [None]}}, "assert": [None, {"type": ["x"], "threshold": {}}]},
            ],
        ),
    ),
    "results whose types are none": (
        "results.json",
        json.dumps(
            {
                "results": [
                    {
                        "success": [],
                        "vars": {"question": 3, "context": {"a": 1}},
                        "prompt": 3,
                        "provider": [],
                        "testCase": [],
                        "response": 3,
                        "latencyMs": "x",
                        "gradingResult": {
                            "componentResults": [
                                None,
                                {"assertion": {"type": None}},
                                {"assertion": {}, "componentResults": 3, "score": {}, "pass": {}},
                            ]
                        },
                    }
                ]
            }
        ),
    ),
    "a run whose types are none": (
        ".deepeval/.latest_test_run.json",
        run(
            {
                "input": {"a": [3]},
                "turns": 3,
                "context": 3,
                "metricsData": [None, {"name": [], "score": {}, "threshold": "x"}, 3],
                "actualOutput": {"a": 3},
                "tags": 3,
                "name": {},
            }
        ),
    ),
    "a run with turns that are none": (
        ".deepeval/.latest_test_run.json",
        run({"turns": [None, 3, {"role": 3}, {"role": "user"}]}),
    ),
    "scores that are not finite": (
        "results.csv",
        "question,answer,faithfulness\nWhy?,So.,inf\nWhy not?,So.,nan\nHow?,So.,1e999\n",
    ),
    "numbers with many digits": (
        "results.jsonl",
        f'{{"question": "Why?", "response": "So.", "faithfulness": {"9" * 5_000}}}',
    ),
    "a lone surrogate": (
        ".deepeval/.latest_test_run.json",
        '{"testCases": [{"input": "Why?", "actualOutput": "\\ud800"}]}',
    ),
    "a lone surrogate in an object": (
        "results.json",
        '{"results": [{"success": true, "vars": {"question": "Why?"}, "response": {"output": {"a": "\\ud800"}}}]}',
    ),
    "a lone surrogate in a name": (
        "results.jsonl",
        '{"question": "Why?", "response": "So.", "\\ud800": 0.5, "x\\ud800": "y"}',
    ),
    "control characters": ("results.csv", "question,answer,faith\x1bfulness\n\x1b[31mWhy?,So.\u202e,0.5\n"),
    "names of metrics that are markup": (
        "results.jsonl",
        json.dumps(
            {
                "question": "Why?",
                "response": "So.",
                "](x) | <script>\n[gate]\nmin": 0.5,
                "é" * 500: 0.5,
                "]": 0.5,
                'faithfulness"': 0.5,
            }
        ),
    ),
}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_read_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, named: bool
) -> None:
    place, text = FILES[name]
    (tmp_path / "outside.json").write_text('[{"vars": {"question": "secret"}}]', "utf-8")
    root = tmp_path / "project"
    (root / place).parent.mkdir(parents=True)
    (root / place).write_text(text, "utf-8")
    (root / "notes.txt").write_text("", "utf-8")
    monkeypatch.chdir(root)
    before = names(tmp_path)
    try:
        found = find_evaluation(Path(place) if named else Path(), None, {})
        written = "".join(migrate(found, tmp_path / "out", force=False).files.values())
    except RagstoneError as error:
        written = f"{error}{error.hint}"
    assert "secret" not in written
    assert {one for one in names(tmp_path) if not one.startswith("out/")} == before


@pytest.mark.parametrize("place", ["promptfooconfig.yaml", "results.csv", "test_rag.py", "golden.jsonl", ".deepeval"])
def test_links_that_lead_outside_are_not_followed(tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("question,answer,faithfulness\nsecret,So.,0.5\n", "utf-8")
    (outside / "test_run_1.json").write_text(run({"input": "secret", "actualOutput": "secret"}), "utf-8")
    root = tmp_path / "project"
    root.mkdir()
    os.symlink(outside if place == ".deepeval" else outside / "x", root / place)  # noqa: PTH211
    with pytest.raises(RagstoneError) as caught:
        find_evaluation(root, None, {})
    assert "secret" not in str(caught.value)
    if place != ".deepeval":
        with pytest.raises(RagstoneError) as caught:
            find_evaluation(root / place, None, {})


def test_a_text_of_a_config_that_is_a_link_outside_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    (root / "inside.txt").symlink_to(tmp_path / "secret.txt")
    test = {"vars": {"question": "Why?", "context": "file://inside.txt"}}
    (root / "promptfooconfig.json").write_text(config(tests=[test]), "utf-8")
    with pytest.raises(RagstoneError, match="outside"):
        find_evaluation(root, None, {})


@pytest.mark.heavy
def test_a_file_of_100_mb_is_refused(tmp_path: Path) -> None:
    for place in ("promptfooconfig.json", "test_run_1.json", "test_rag.py", "results.csv"):
        with (tmp_path / place).open("wb") as stream:
            stream.write(b'import deepeval\n"' if place.endswith("py") else b'["')
            stream.truncate(100_000_000)
        for path in (tmp_path, tmp_path / place):
            with pytest.raises(RagstoneError):
                find_evaluation(path, None, {})
