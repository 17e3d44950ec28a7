"""What a golden set consists of, what its questions give away, and what its documents no longer have."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.golden.sample import Review, Sample
from ragstone.tools.generate.golden.contents import examine
from ragstone.tools.generate.golden.corpus import check_references, read_corpus


def test_contents_duplicates_and_near_duplicates() -> None:
    samples = [
        Sample("a", "How long is the warranty?", reference="24 months.", tags=("w", "fact"), group="g"),
        Sample("b", "How long is THE warranty", reference="24 months.", tags=("w",), group="g"),
        Sample("c", "How long is warranty?", answerable=False),
        Sample("d", "Where is the office?", reference_contexts=("In Bonn.",), relevant_ids={"x": 1.0}),
        Sample("e", "Who pays for travel?", review=Review("draft")),
    ]
    found = asyncio.run(examine(samples))
    assert (found.samples, found.drafts, found.unanswerable) == (5, 1, 0.2)
    assert found.kinds == {"with reference": 2, "unanswerable": 1, "without reference": 2}
    assert found.tags == {
        "": {"unanswerable": 1, "without reference": 2},
        "w": {"with reference": 2},
        "fact": {"with reference": 1},
    }
    assert (found.with_passages, found.with_relevant_ids, found.groups, found.largest_group) == (1, 1, 1, 2)
    assert [(pair.first.id, pair.second.id) for pair in found.duplicates] == [("a", "b")]
    assert [(pair.first.id, pair.second.id) for pair in found.near_duplicates] == [("a", "c")]
    assert [pair.contradiction for pair in found.contradictions] == ["only one of them is answerable"]


@pytest.mark.parametrize(
    ("question", "reference", "leaks"),
    [
        ("Is it true that the warranty is 24 months?", "The warranty is 24 months.", True),
        ("How long is the warranty?", "The warranty is 24 months.", False),
        ("Is the office in Bonn or in Cologne?", "In Bonn.", False),  # a choice names the answer
        ("Does the head of departments approve it?", "The head of department.", False),  # not the end of a word
    ],
)
def test_a_question_that_holds_its_answer_is_named(question: str, reference: str, leaks: bool) -> None:
    found = asyncio.run(examine([Sample("q", question, reference=reference)]))
    assert found.answers_in_questions == (("q",) if leaks else ())


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config.md").write_text("# Hidden\nhidden words here")
    (folder / "Warranty.md").write_text(
        "# How long\n\nThe *warranty* lasts\n24 months, since 2019.\n## Claims & Costs\n"
    )
    (folder / "sub" / "travel.html").write_text("<h2 id='who'>Who</h2><p>The&nbsp;head <b>approves</b> it.</p>")
    (folder / "faq.jsonl").write_text(json.dumps({"doc_id": "faq-7", "text": "Ask the desk."}) + "\n")
    (folder / "plan.pdf").write_bytes(b"%PDF")
    return folder


@pytest.mark.parametrize(
    "name",
    [
        *("warranty.md", "docs/Warranty.md", "warranty", "warranty.md#how-long", "warranty.md#claims--costs"),
        *(
            "warranty-chunk-3",
            "warranty.md:12",
            "sub/travel.html#who",
            "travel",
            "faq-7",
            "faq-7#x",
            "plan.pdf",
            "plan_p4",
        ),
    ],
)
def test_an_id_may_name_a_document_in_many_ways(docs: Path, name: str) -> None:
    known = [Sample("k", "?", relevant_ids={"warranty.md#how-long": 1.0, "sub/travel.html#who": 1.0})]
    found = check_references([*known, Sample("s", "?", relevant_ids={name: 1.0})], read_corpus(docs))
    assert found.missing_ids == ()
    assert found.known_ids == found.ids == 3


@pytest.mark.parametrize("name", ["returns.md", "warranty.md#gone", "config.md", "faq-8"])
def test_an_id_of_a_document_or_section_that_is_gone_is_named(docs: Path, name: str) -> None:
    known = [Sample("k", "?", relevant_ids={"warranty.md#how-long": 1.0, "sub/travel.html#who": 1.0})]
    unjudged = Sample("u", "?", relevant_ids={"never-relevant": 0.0})
    found = check_references([*known, unjudged, Sample("s", "?", relevant_ids={name: 2.0})], read_corpus(docs))
    assert [(one.sample_id, one.what) for one in found.missing_ids] == [("s", name)]


def test_ids_that_are_no_paths_are_not_called_missing(docs: Path) -> None:
    samples = [Sample(f"s{i}", "?", relevant_ids={f"a81c-{i}f": 1.0}) for i in range(5)]
    found = check_references(samples, read_corpus(docs))
    assert (found.scheme_known, found.missing_ids, found.known_ids, found.ids) == (False, (), 0, 5)


def test_passages_are_looked_up_without_markup_and_line_breaks(docs: Path) -> None:
    samples = [
        Sample("held", "?", reference_contexts=("The warranty lasts 24 months, since 2019", "the head approves it")),
        Sample("gone", "?", reference_contexts=("The warranty lasts 12 months.", "hidden words here")),
        Sample("part", "?", reference_contexts=("warranty lasts 24 month",)),  # not the end of a word
    ]
    found = check_references(samples, read_corpus(docs))
    assert [one.sample_id for one in found.missing_passages] == ["gone", "gone", "part"]
    assert (found.documents, found.unread, found.passages) == (4, 1, 5)


def test_links_out_of_the_folder_are_not_followed(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret words")
    (docs / "link.md").symlink_to(tmp_path / "secret.md")
    assert "secret" not in read_corpus(docs).words


def test_a_corpus_that_is_none_is_refused(tmp_path: Path) -> None:
    for folder, says in ((tmp_path, "no documents"), (tmp_path / "none", "not a folder")):
        with pytest.raises(ConfigError, match=says):
            read_corpus(folder)
    (tmp_path / "a.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(ConfigError, match=r"a.jsonl:1: has no text"):
        read_corpus(tmp_path)


def test_a_question_that_quotes_a_document_is_named_with_the_words(docs: Path) -> None:
    quoting = Sample("q", "Is it true how long the warranty lasts: 24 months, since 2019?")
    other = Sample("o", "Does the warranty last 24 months for a device that was bought in 2019?")
    (place,) = check_references([quoting, other], read_corpus(docs)).quoting_questions
    assert (place.sample_id, place.what) == ("q", "how long the warranty lasts 24 months since")
