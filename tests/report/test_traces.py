"""A failure of the system is read where it happened: in the user's code."""

from __future__ import annotations

from ragstone.report.traces import last_frames

TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app.py", line 20, in answer
    documents = find(question)
                ^^^^^^^^^^^^^^
  File "/srv/rag/search.py", line 7, in find
    return index.query(
        question,
    )
  File "/srv/.venv/lib/python3.13/site-packages/index/client.py", line 900, in query
    raise ConnectionError(url)
ConnectionError: http://localhost:6333
"""


def test_the_last_frames_are_those_of_the_users_code_and_the_error() -> None:
    assert last_frames(TRACEBACK) == (
        'File "/srv/app.py", line 20, in answer',
        "  documents = find(question)",
        'File "/srv/rag/search.py", line 7, in find',
        "  return index.query(",
        "      question,",
        "  )",
        "ConnectionError: http://localhost:6333",
    )


def test_many_frames_are_cut_to_the_last() -> None:
    frames = "".join(f'  File "/srv/app.py", line {n}, in answer\n    answer()\n' for n in range(1, 30))
    lines = last_frames(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    assert [line for line in lines if line.startswith("File")] == [
        f'File "/srv/app.py", line {n}, in answer' for n in (27, 28, 29)
    ]


def test_what_is_no_traceback_is_its_last_lines() -> None:
    assert last_frames("\n".join(map(str, range(20)))) == ("14", "15", "16", "17", "18", "19")
    assert last_frames(None) == ()
