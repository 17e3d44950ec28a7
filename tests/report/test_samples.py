"""The samples of a report."""

from __future__ import annotations

from dataclasses import replace

from ragstone.evaluation.scores import RunScores, SampleFacts, SystemFacts
from ragstone.gate.verdict import Regression
from ragstone.golden.sample import Message
from ragstone.report.document import document_of
from ragstone.report.parts import Links
from ragstone.report.samples import RunSamples
from tests.report.conftest import Text, helpdesk_report, record
from tests.report.runs import compared, passed, scores


def test_the_worst_sample_says_what_was_wrong_with_it() -> None:
    sample = helpdesk_report().samples.worst[0]
    assert sample.id == "port-default"
    assert [(bad.text, bad.verdict) for bad in sample.unsupported] == [
        ("The gateway listens on port 8080.", "contradicted")
    ]
    assert sample.missing == ("The gateway listens on port 8443.",)
    assert (sample.contexts, sample.useful_contexts) == (2, 1)
    assert sample.baseline_answer == "The gateway listens on port 8443."
    assert sample.place is not None
    assert sample.place.url == "https://github.com/acme/helpdesk/blob/3f2c1e9/golden/helpdesk.jsonl?plain=1#L1"


def test_a_worst_sample_shows_every_metric_that_it_lost_on() -> None:
    lost = (Regression("a", "faithfulness", 0.2, 0.9),)
    found = passed(comparability=compared("faithfulness", "tone"), regressions=lost)
    now = scores({"faithfulness": {"a": 0.2}, "tone": {"a": 0.5}, "other": {"a": 0.0}})
    then = scores({"faithfulness": {"a": 0.9}, "tone": {"a": 0.8}, "other": {"a": 1.0}})
    changes = document_of(found, now, then).samples.worst[0].changes
    assert [(change.metric, change.current, change.baseline) for change in changes] == [
        ("faithfulness", 0.2, 0.9),
        ("tone", 0.5, 0.8),
    ]


def test_failures_are_grouped_by_reason_and_named_the_systems_first() -> None:
    groups = helpdesk_report().samples.failures
    assert [(group.by, [sample.id for sample in group.samples]) for group in groups] == [
        ("system", ["q-059"]),
        ("judge", ["q-058"]),
    ]
    assert groups[0].metrics == ()
    assert len(groups[1].metrics) == 5


def test_failures_that_differ_in_a_line_number_are_one_group() -> None:
    ids = [f"q-{number:03}" for number in range(25)]
    reasons = {sample_id: f"raised: ValueError: line {7 * at % 11}" for at, sample_id in enumerate(ids)}
    run = RunScores("now", {}, {name: SampleFacts() for name in ids}, SystemFacts(failures=reasons))
    (group,) = RunSamples(passed(), run, None, Links()).failures({})
    assert group.reason == "raised: ValueError: line 0"
    assert [sample.id for sample in group.samples] == ids


def test_differences_count_what_got_worse_and_better() -> None:
    now = scores({"m": {"a": 0.0, "b": 0.5, "c": 0.5, "d": 1.0}})
    then = scores({"m": {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.0}})
    (differences,) = document_of(passed(comparability=compared("m", samples=4)), now, then).samples.differences
    assert (differences.worse, differences.same, differences.better) == (1, 1, 2)
    assert sum(differences.counts) == 3
    assert differences.counts[0] == differences.counts[-1] == 1


def test_a_question_after_earlier_turns_is_shown_as_it_was_judged() -> None:
    text = Text()
    one = record(text)
    talk = replace(one.sample, history=(Message("user", "Is there a gateway?"), Message("assistant", "Yes.")))
    asked = replace(one.answers[0].judgements[0], standalone_question="Which port does the gateway use?")
    shown = replace(one, sample=talk, answers=(replace(one.answers[0], judgements=(asked,)),))
    sample = helpdesk_report(details={text.id: shown}).samples.worst[0]
    assert sample.question == (
        f"{text.question} (after 2 earlier messages; judged as: Which port does the gateway use?)"
    )
    unjudged = replace(shown, answers=(replace(shown.answers[0], judgements=()),))
    assert (
        helpdesk_report(details={text.id: unjudged}).samples.worst[0].question
        == f"{text.question} (after 2 earlier messages)"
    )
