"""Configs and results of promptfoo."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ragstone.app.survey.look import MAX_DATA_BYTES
from ragstone.errors import GoldenSetError
from ragstone.formatting import counted
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, INSTEAD, RECORDED, normal
from ragstone.golden.asserted import TYPES
from ragstone.golden.formats.registry import BY_ENDING, format_of
from ragstone.golden.load import find_files
from ragstone.golden.promptfoo import as_list, assertions_in, is_config, row_of, spread
from ragstone.golden.rows import SourceFile
from ragstone.report.templates import render_untrusted
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, entry_of, filled, text_of
from ragstone.tools.migrate.promptfoo_service import QUESTIONS, SLOT, read_provider

_NAMED = re.compile(r".*\.ya?ml|.*(promptfoo|result|output|eval).*\.json")
_CONFIG = "promptfooconfig"
_MAX_READ = 50
"""Number of files that are read at most to find configs and results."""

_EXPECTED = re.compile(
    r"(?P<type>(?:not-)?[a-z]+(?:-[a-z]+)*)(?:\((?P<threshold>[\d.]+)\))?:\s*(?P<value>.*)", re.DOTALL
)
_SHORT = {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}
_CONTEXTS = ("context", "contexts", *RECORDED["contexts"].strong)
_RUBRICS = ("llm-rubric", "g-eval", "model-graded-closedqa")
_DEFAULTS = {"similar": 0.75, "g-eval": 0.7, "answer-relevance": 0.0}
_CHEAP = ("latency", "cost")
_MAX_RUBRIC = 4000
_PROGRAMS = (".py", ".js", ".mjs", ".cjs", ".ts")


def read_promptfoo(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    """The results and the config among the files; None if there is neither.

    Raises GoldenSetError for a config that can't be read, and CellError for a value in it.
    """
    found = Evaluation("promptfoo", per_case=True)
    alone = len(names) == 1
    named = sorted(
        (one for one in names if alone or _NAMED.fullmatch(one.name)), key=lambda one: _CONFIG not in one.name
    )
    config: Mapping[str, Any] | None = None
    results: Mapping[str, Any] = {}
    folder = root
    for name in named[:_MAX_READ]:
        document = _document(SourceFile(root / name, str(name), root, limit=MAX_DATA_BYTES), alone=alone)
        if entries := _entries(document):
            if results:
                found.left_out.append((str(name), "other results; name the file to migrate them"))
                continue
            results = {"entries": entries, "config": _get(document, "config")}
        elif is_config(document):
            if config is not None:
                found.left_out.append((str(name), "another config; name it to migrate it"))
                continue
            config, folder = document, (root / name).parent
        else:
            continue
        found.files.append(str(name))
    if not found.files:
        return None
    config = config if config is not None else results["config"]
    reader = _Reader(root, folder, config if isinstance(config, Mapping) else {}, found)
    reader.sent = read_provider(reader.config, found)
    found.cases = [*map(reader.recorded, reader.chosen(results["entries"]))] if results else [*reader.tests()]
    reader.rubrics()
    for what, count in reader.left_out.items():
        found.left_out.append((what, f"{_why(what)} ({counted(count, 'time')})"))
    return found


def _document(source: SourceFile, *, alone: bool) -> Any:
    """The document in a file; None if it is none, or can't be read and has not the name of a config."""
    if source.path.suffix.lower() not in BY_ENDING or not (form := format_of(source)).is_document:
        return None
    try:
        return form.read(source)
    except GoldenSetError:
        if alone or source.path.stem == _CONFIG:
            raise
        return None


def _entries(document: object) -> list[Mapping[str, Any]]:
    """The results in a file of results: under ``results.results`` (version 3), or ``results`` (older)."""
    while isinstance(document, Mapping) and "results" in document:
        document = document["results"]
    return [one for one in as_list(document) if "success" in _map(one) and isinstance(one.get("vars"), Mapping)]


def _why(what: str) -> str:
    kind = what.removeprefix("assertion ").removeprefix("not-")
    if not what.startswith("assertion "):
        return "it is a program, on another host, or can't be read"
    return f"not checked as it stands; use {INSTEAD.get(kind, 'a metric of your own')}"


@dataclass(slots=True)
class _Reader:
    """Reads the tests of one config, with the files it names, which must be in `root`.

    `sent` is the variable that the service is sent as the question, `texts` the rubrics by name, `asked` counts cases.
    """

    root: Path
    folder: Path
    config: Mapping[str, Any]
    found: Evaluation
    sent: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    texts: dict[str, list[str]] = field(default_factory=dict)
    asked: int = 0

    def tests(self) -> Iterator[Case]:
        """The cases of the config: each test, with each value of a variable that has several."""
        default = self.config.get("defaultTest")
        default = next(self._listed(default), {}) if isinstance(default, str) else _map(default)
        shared = self._variables(default)
        for test in self._listed(self.config.get("tests")):
            for given in spread({**shared, **self._variables(test)}):
                yield self._case({key: self._text(value) for key, value in given.items()}, test, default, None)

    def chosen(self, results: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The results of the first prompt and provider; the others are named as left out."""
        keys = [
            (json.dumps(one.get("provider"), sort_keys=True), one.get("promptIdx", _get(one.get("prompt"), "label")))
            for one in results
        ]
        yield from (one for one, key in zip(results, keys, strict=True) if key == keys[0])
        if others := len(keys) - keys.count(keys[0]):
            why = "they are of other prompts or providers than the first"
            self.found.left_out.append((f"{others:,} results", why))

    def recorded(self, given: Mapping[str, Any]) -> Case:
        """A result: its answer, its grades and its outcome."""
        test, reply = _map(given.get("testCase")), _map(given.get("response"))
        asked, output = _get(given.get("prompt"), "raw"), reply.get("output")
        case = self._case(dict(given["vars"]), test, None, asked if isinstance(asked, str) else None)
        answer = dict(output) if isinstance(output, Mapping) else {"answer": "" if output is None else text_of(output)}
        places = (given["vars"], reply.get("metadata"), given.get("metadata"), reply.get("raw"))
        contexts = next((value for place in places if (value := _named(place, _CONTEXTS))), None)
        if contexts is not None and not _named(answer, _CONTEXTS):
            answer["contexts"] = list(cells.contexts(contexts))
        if (latency := as_number(given.get("latencyMs"))) is not None:
            answer["latency_s"] = latency / 1000
        if output is None:
            answer = {"error": str(reply.get("error") or given.get("error") or "no output")}
        passed = str(given.get("success")).lower() == "true"
        components = [_map(one) for one in as_list(_get(given.get("gradingResult"), "componentResults"))]
        return Case(case.row, answer, _grades(components, as_number(test.get("threshold"))), passed)

    def _case(self, given: dict[str, Any], test: Mapping[str, Any], default: object, asked: str | None) -> Case:
        self.asked += 1
        asserted = list(assertions_in(test, default))
        row, _ = row_of(given, asserted, lambda text: render_untrusted(text, given))
        grades: dict[str, Grade] = {}
        for one in asserted:
            self._assertion(one, grades)
        texts = {normal(key): value for key, value in reversed(given.items()) if isinstance(value, str)}
        names = [name for name in (self.sent, *QUESTIONS) if name in texts]
        others = [name for name in texts if name not in _CONTEXTS]
        names += others if len(others) == 1 else []
        prompt = asked or self._prompt(given)
        context = _named(given, _CONTEXTS)
        described = not test.get("vars") and isinstance(test.get("description"), str)
        fields = {
            "id": _named(given, FIELDS["id"].strong),
            "question": prompt if not names or (self.sent == "prompt" and prompt) else texts[names[0]],
            "reference": row.get("reference") or _named(given, FIELDS["reference"].strong),
            "reference_contexts": None if context is None else list(cells.contexts(context)),
            "assert": row.get("assert"),
            "tags": [test["description"]] if described else None,
        }
        return Case(filled(fields), grades=grades)

    def _assertion(self, one: Mapping[str, Any], grades: dict[str, Grade]) -> None:
        """Note what an assertion asks of every answer, or in `grades` of one, or that it is left out."""
        kind, threshold = str(one.get("type")), as_number(one.get("threshold"))
        name = _metric(one)
        if kind in _CHEAP and threshold:
            key, limit = ("latency_p95_s", threshold / 1000) if kind == "latency" else ("cost_p95_usd", threshold)
            self.found.limits[key] = max(limit, self.found.limits.get(key, 0.0))
        elif kind in _RUBRICS and isinstance(one.get("value"), str):
            self.texts.setdefault(name, []).append(one["value"])
            self.found.bounds.setdefault(name, 1.0 if threshold is None else threshold)
        elif kind.startswith(("context-", "answer-", "similar", "factuality")) and not one.get("transform"):
            bound = threshold if threshold is not None else _DEFAULTS.get(kind, 1.0 if kind == "factuality" else 0.0)
            grades[name] = Grade(None, max(bound, grades[name].threshold or 0.0) if name in grades else bound)
        elif kind.removeprefix("not-") in TYPES and not one.get("transform"):
            self.found.bounds["assertions"] = 1.0
        else:
            self.left_out[f"assertion {kind}"] += 1

    def rubrics(self) -> None:
        """The rubrics that every test has become metrics."""
        for name, texts in self.texts.items():
            if len(set(texts)) == 1 and len(texts) >= self.asked and not SLOT.search(texts[0]):
                self.found.metrics[name] = {"rubric": texts[0][:_MAX_RUBRIC]}
            else:
                self.found.bounds.pop(name, None)
                self.left_out["assertion llm-rubric"] += len(texts)

    def _prompt(self, given: Mapping[str, Any]) -> str | None:
        for one in as_list(self.config.get("prompts")):
            raw = one if isinstance(one, str) else _get(one, "raw") or _get(one, "id")
            if isinstance(raw, str):
                text = self._text(raw)
                return render_untrusted(text, given) if isinstance(text, str) else None
        return None

    def _variables(self, test: Mapping[str, Any]) -> Mapping[str, Any]:
        given = test.get("vars")
        return _map(next(self._listed(given), {}).get("vars") if isinstance(given, str) else given)

    def _text(self, value: object) -> object:
        """`value`, or the text of the file that it names; None if that can't be read."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        sources = () if value.endswith(_PROGRAMS) else self._files(value)
        if not sources:
            self.left_out[value] += 1
            return None
        return sources[0].decode(sources[0].read_bytes())

    def _files(self, name: str) -> list[SourceFile]:
        """The files that a reference names. Reading one that is outside `root` raises GoldenSetError."""
        try:
            found = find_files([name.removeprefix("file://")], self.folder)
        except GoldenSetError:
            return []
        return [SourceFile(one.path, one.name, self.root, limit=MAX_DATA_BYTES) for one in found]

    def _listed(self, tests: object) -> Iterator[Mapping[str, Any]]:
        """The tests in a config, and in the files that it names."""
        for one in as_list(tests):
            named = one.get("path", one) if isinstance(one, Mapping) else str(one)
            if isinstance(named, Mapping):
                yield named
                continue
            sources = self._files(str(named)) if PurePosixPath(str(named)).suffix.lower() in BY_ENDING else []
            if not sources:
                self.left_out[str(named)] += 1
            for source in sources:
                self.found.files.append(source.name)
                form = format_of(source)
                read = form.read(source)
                if not form.is_document:
                    rows = [row.values if "vars" in row.values else _of_table(row.values) for row in read]
                else:
                    rows = as_list(read if isinstance(read, list) or "vars" in _map(read) else {"vars": read})
                yield from (row for row in rows if isinstance(row, Mapping))


def _grades(components: list[Mapping[str, Any]], threshold: float | None) -> dict[str, Grade]:
    """The scores that a case was given; the share of assertions that hold is one. Parts of a set don't count."""
    parts = [part for one in components for part in as_list(one.get("componentResults"))]
    checked: list[bool] = []
    grades: dict[str, Grade] = {}
    for one in components:
        asserted = one.get("assertion")
        if not isinstance(asserted, Mapping) or one in parts:
            continue
        kind, passed = str(asserted.get("type")), str(one.get("pass")).lower() == "true"
        name = _metric(asserted)
        if kind.removeprefix("not-") in TYPES:
            checked.append(passed)
        elif name in grades:  # two of a kind: what decides is whether both passed
            both = passed and bool(grades[name].passed)
            grades[name] = Grade(float(both), 1.0, both)
        elif kind not in _CHEAP:
            least = asserted.get("threshold", _DEFAULTS.get(kind, 0.0 if "context-" in kind else None))
            grades[name] = Grade(as_number(one.get("score")), as_number(least), passed)
    if checked:
        share, least = sum(checked) / len(checked), threshold or 1.0
        grades["assertions"] = Grade(share, least, share >= least)
    return grades


def _of_table(row: Mapping[str, object]) -> dict[str, Any]:
    """A test in a table: columns are variables, ``__expected`` and its like are assertions."""
    asserted: list[dict[str, object]] = []
    for key, value in row.items():
        if re.fullmatch(r"__expected\d*", key) and isinstance(value, str) and value.strip():
            found = _EXPECTED.fullmatch(value.strip())
            given = {"type": "equals", "value": value} if found is None else filled(found.groupdict())
            asserted.append({"value": "", **given, "type": _SHORT.get(str(given["type"]), given["type"])})
    return {"vars": {key: value for key, value in row.items() if not key.startswith("__")}, "assert": asserted}


def _metric(asserted: Mapping[str, Any]) -> str:
    """The name of an assertion's score: its type, if that is a metric here too, else the name it was given."""
    kind = str(asserted.get("type"))
    return kind if entry_of(kind) is not None else str(asserted.get("metric") or kind)


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _get(value: object, key: str) -> Any:
    return _map(value).get(key)


def _named(value: object, names: tuple[str, ...]) -> Any:
    """What `value` has under the first of `names`."""
    found = {normal(str(key)): one for key, one in _map(value).items()}
    return next((found[name] for name in names if found.get(name)), None)
