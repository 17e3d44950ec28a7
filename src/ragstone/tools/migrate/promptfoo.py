"""Configs and results of promptfoo."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, entry_of

_NAMED = re.compile(r".*\.ya?ml|.*(promptfoo|result|output|eval).*\.json")
_MAX_READ = 50
"""Number of files that are read at most to find configs and results."""

_EXPECTED = re.compile(
    r"(?P<type>(?:not-)?[a-z]+(?:-[a-z]+)*)(?:\((?P<threshold>[\d.]+)\))?:\s*(?P<value>.*)", re.DOTALL
)
_QUESTIONS = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_CONTEXTS = ("context", "contexts", *RECORDED["contexts"].strong)
_RUBRICS = ("llm-rubric", "g-eval", "model-graded-closedqa")
_DEFAULTS = {"similar": 0.75, "g-eval": 0.7, "answer-relevance": 0.0}
_CHEAP = ("latency", "cost")
_PATH = re.compile(r"""(?:json|data)((?:\??\.\w+|\[\d+\]|\[["']\w+["']\])+)""")
_ENV = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
_SCALAR = re.compile(r"true|false|-?(0|[1-9]\d*)(\.\d+)?")
_SLOT = re.compile(r"\{\{[^{}]*\}\}")


def read_promptfoo(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    """The results and the config among the files; None if there is neither."""
    found = Evaluation("promptfoo", per_case=True)
    alone = len(names) == 1
    named = sorted(
        (one for one in names if alone or _NAMED.fullmatch(one.name)), key=lambda one: "promptfooconfig" not in one.name
    )
    documents = (
        (name, _document(SourceFile(root / name, str(name), root, limit=MAX_DATA_BYTES), alone=alone))
        for name in named[:_MAX_READ]
    )
    config: Mapping[str, Any] | None = None
    folder, has_config = root, False
    results: list[Mapping[str, Any]] = []
    for name, document in documents:
        entries = _entries(document)
        if entries and not results:
            found.files.append(str(name))
            results = entries
            config = config or (document.get("config") if isinstance(document.get("config"), Mapping) else None)
        elif entries:
            found.left_out.append((str(name), "other results; name the file to migrate them"))
        elif is_config(document) and has_config:
            found.left_out.append((str(name), "another config; name it to migrate it"))
        elif is_config(document):
            found.files.append(str(name))
            config, folder = document, (root / name).parent
            has_config = True
    if not found.files:
        return None
    reader = _Reader(root, folder, config or {}, found)
    reader.provider()
    found.cases = [reader.recorded(one) for one in reader.chosen(results)] if results else list(reader.tests())
    reader.rubrics()
    for what, count in reader.left_out.items():
        found.left_out.append((what, f"{_why(what)} ({counted(count, 'time')})"))
    return found


def _document(source: SourceFile, *, alone: bool) -> Any:
    if source.path.suffix.lower() not in BY_ENDING or not (form := format_of(source)).is_document:
        return None
    try:
        return form.read(source)
    except GoldenSetError:
        if alone:
            raise
        return None


def _entries(document: object) -> list[Mapping[str, Any]]:
    """The results in a file of results: under ``results.results`` (version 3), or ``results`` (older)."""
    while isinstance(document, Mapping) and "results" in document:
        document = document["results"]
    listed = document if isinstance(document, list) else []
    return [
        one for one in listed if isinstance(one, Mapping) and "success" in one and isinstance(one.get("vars"), Mapping)
    ]


def _why(what: str) -> str:
    kind = what.removeprefix("assertion ").removeprefix("not-")
    if not what.startswith("assertion "):
        return "it is a program, on another host, or can't be read"
    return f"not checked as it stands; use {INSTEAD.get(kind, 'a metric of your own')}"


@dataclass(slots=True)
class _Reader:
    """Reads the tests of one config, with the files it names, which must be in `root`."""

    root: Path
    folder: Path
    config: Mapping[str, Any]
    found: Evaluation
    left_out: dict[str, int] = None  # type: ignore[assignment]
    texts: dict[str, list[str]] = None  # type: ignore[assignment]
    asked: int = 0

    def __post_init__(self) -> None:
        self.left_out, self.texts = {}, {}

    def tests(self) -> Iterator[Case]:
        """The cases of the config: each test, with each value of a variable that has several."""
        default = self._default()
        for test in self._listed(self.config.get("tests")):
            for given in spread({**self._variables(default), **self._variables(test)}):
                yield self._case({key: self._value(value) for key, value in given.items()}, test, default, None)

    def chosen(self, results: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The results of the first prompt and provider; the others are named as left out."""
        first, others = None, 0
        for one in results:
            prompt, provider = one.get("prompt"), one.get("provider")
            key = (json.dumps(provider, sort_keys=True, default=str), one.get("promptIdx", _get(prompt, "label")))
            first = first or key
            if key == first:
                yield one
            others += key != first
        if others:
            self.found.left_out.append((f"{others:,} results", "they are of other prompts or providers than the first"))

    def recorded(self, given: Mapping[str, Any]) -> Case:
        """A result: its answer, its grades and its outcome."""
        test = given.get("testCase") if isinstance(given.get("testCase"), Mapping) else {}
        asked = _get(given.get("prompt"), "raw")
        case = self._case(dict(given["vars"]), test or {}, None, asked if isinstance(asked, str) else None)
        case.grades = {}  # those that were given count
        reply = given.get("response") if isinstance(given.get("response"), Mapping) else {}
        output = _get(reply, "output")
        answer: dict[str, object] = (
            dict(output) if isinstance(output, Mapping) else {"answer": cells.text(output) or ""}
        )
        places = (given["vars"], _get(reply, "metadata"), given.get("metadata"), _get(reply, "raw"))
        contexts = next((value for place in places if (value := _named(place, _CONTEXTS))), None)
        if contexts is not None and not _named(answer, _CONTEXTS):
            answer["contexts"] = list(cells.contexts(contexts))
        if (latency := as_number(given.get("latencyMs"))) is not None:
            answer["latency_s"] = latency / 1000
        if output is None:
            answer = {"error": str(_get(reply, "error") or given.get("error") or "no output")}
        case.answer = answer
        case.passed = str(given.get("success")).lower() == "true"
        components = as_list(_get(given.get("gradingResult"), "componentResults"))
        checked: list[bool] = []
        inner = [
            json.dumps(one, sort_keys=True) for set_ in components for one in as_list(_get(set_, "componentResults"))
        ]
        for one in components:
            asserted = _get(one, "assertion")
            if isinstance(asserted, Mapping) and json.dumps(one, sort_keys=True) not in inner:
                self._grade(one, asserted, case, checked)
        if checked:
            share, least = sum(checked) / len(checked), as_number(_get(test, "threshold")) or 1.0
            case.grades["assertions"] = Grade(share, least, share >= least)
        return case

    def _grade(self, one: Mapping[str, Any], asserted: Mapping[str, Any], case: Case, checked: list[bool]) -> None:
        kind, passed = str(asserted.get("type")), str(one.get("pass")).lower() == "true"
        if kind.removeprefix("not-") in TYPES:
            checked.append(passed)
        elif kind not in _CHEAP:
            name = _metric(asserted)
            threshold = as_number(asserted.get("threshold", _DEFAULTS.get(kind, 0.0 if "context-" in kind else None)))
            before = case.grades.get(name)
            if before is not None:  # two of a kind: what decides is whether both passed
                case.grades[name] = Grade(float(passed and bool(before.passed)), 1.0, passed and bool(before.passed))
            else:
                case.grades[name] = Grade(as_number(one.get("score")), threshold, passed)

    def _case(self, given: dict[str, Any], test: Mapping[str, Any], default: object, asked: str | None) -> Case:
        self.asked += 1
        asserted = list(assertions_in(test, default))
        row, _ = row_of(given, asserted, lambda text: render_untrusted(text, given))
        grades: dict[str, Grade] = {}
        for one in asserted:
            self._assertion(one, grades)
        known = next((key for key in sorted(given, key=_rank) if isinstance(given[key], str) and _rank(key) < 99), None)
        texts = [key for key, value in given.items() if isinstance(value, str) and normal(key) not in _CONTEXTS]
        name = known or (texts[0] if len(texts) == 1 else None)
        prompt = asked or self._prompt(given)
        question = prompt if name is None or (self._sends_prompt() and prompt) else given[name]
        context = _named(given, _CONTEXTS)
        kept: dict[str, object] = {
            "id": _named(given, FIELDS["id"].strong),
            "question": question,
            "reference": row.get("reference") or _named(given, FIELDS["reference"].strong),
            "reference_contexts": None if context is None else list(cells.contexts(context)),
            "assert": row.get("assert"),
            "tags": [test["description"]]
            if isinstance(test.get("description"), str) and not test.get("vars")
            else None,
        }
        return Case({key: value for key, value in kept.items() if value not in (None, "", [])}, grades=grades)

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
            self._leave_out(f"assertion {kind}")

    def rubrics(self) -> None:
        """The rubrics that every test has become metrics."""
        for name, texts in self.texts.items():
            if len(set(texts)) == 1 and len(texts) >= self.asked and not _SLOT.search(texts[0]):
                self.found.metrics[name] = {"rubric": texts[0][:4000]}
            else:
                self.found.bounds.pop(name, None)
                self._leave_out("assertion llm-rubric", len(texts))

    def provider(self) -> None:
        """The entrypoint that the first provider over HTTP, or program, is."""
        for one in as_list(self.config.get("providers", self.config.get("targets"))):
            given = one if isinstance(one, Mapping) else {"id": str(one)}
            key, inner = next(iter(given.items()), ("", None))
            if len(given) == 1 and isinstance(inner, Mapping):  # {"http": {config…}}
                given = {"id": key, **inner}
            name, config = str(given.get("id")), given.get("config")
            config = config if isinstance(config, Mapping) else {}
            address = str(config.get("url") or name)
            if hosts := _ENV.findall(address):
                address = re.sub(r"^(https?://)?\{\{\s*env\.\w+\s*\}\}", "http://127.0.0.1:8000", address)
                self.found.left_out.append(
                    (f"address in {', '.join(hosts)}", "not known here: set [system] entrypoint")
                )
            if address.startswith(("http://", "https://")) and self.found.live is None and not _SLOT.search(address):
                self._service(address, config)
            elif name.startswith("exec:") and self.found.live is None:
                self.found.live = f"command:{name.removeprefix('exec:').strip()} {{question}}"
                self.found.translated.append((f"provider {name}", self.found.live))
            else:
                self.found.left_out.append(
                    (f"provider {name}", "a model or a program, not a service: set [system] entrypoint")
                )

    def _service(self, address: str, config: Mapping[str, Any]) -> None:
        http: dict[str, Any] = {}
        body = config.get("body")
        if isinstance(body, str) and body.lstrip().startswith("{"):
            body = _json(body)
        elif any(name.endswith((".yaml", ".yml")) for name in self.found.files):
            body = _typed(body)
        slots = dict(_slots(body, ""))
        place = next(
            (place for place, name in slots.items() if name in ("prompt", *_QUESTIONS)), next(iter(slots), None)
        )
        if place is None or str(config.get("method", "POST")).upper() != "POST":
            self.found.left_out.append((f"provider {address}", "it takes no POST with the prompt in a JSON body"))
            return
        http["question_field"] = place
        http["body"] = _without(body, place.split("."))
        if _SLOT.search(json.dumps(http["body"])):
            self.found.left_out.append(
                (
                    f"body of {address}",
                    "other fields that differ from case to case are constant here: edit [system.http] body",
                )
            )
        names: list[str] = []
        headers = config.get("headers")
        for key, value in headers.items() if isinstance(headers, Mapping) else ():
            if str(key).lower() != "content-type":
                names += _ENV.findall(str(value))
                http.setdefault("headers", {})[str(key)] = _ENV.sub(r"${\1}", str(value))
        self.found.live = address
        self.found.system = {"env": names, "http": http} if names else {"http": http}
        for key, field in (
            ("transformResponse", "answer_field"),
            ("responseParser", "answer_field"),
            ("contextTransform", "contexts_field"),
        ):
            written = config.get(key)
            if isinstance(written, str) and (path := _PATH.fullmatch(written.strip())):
                self.found.system[field] = re.sub(r"""\[["']?(\w+)["']?\]""", r".\1", path[1].replace("?", "")).lstrip(
                    "."
                )
            elif written is not None:
                self.found.left_out.append((f"{key} of {address}", f"code is not executed: set [system] {field}"))
        self.found.translated.append((f"provider {address}", f"the entrypoint; {place} takes the question"))

    def _leave_out(self, what: str, times: int = 1) -> None:
        self.left_out[what] = self.left_out.get(what, 0) + times

    def _sends_prompt(self) -> bool:
        """Whether the service gets the prompt, not a variable."""
        return self.found.live is not None and "{{prompt}}" in json.dumps(self.config.get("providers", "")).replace(
            " ", ""
        )

    def _prompt(self, given: Mapping[str, Any]) -> str | None:
        for one in as_list(self.config.get("prompts")):
            raw = one if isinstance(one, str) else _get(one, "raw") or _get(one, "id")
            if isinstance(raw, str):
                text = self._text(raw) if raw.startswith("file://") else raw
                return None if text is None else render_untrusted(text, given)
        return None

    def _default(self) -> Mapping[str, Any]:
        default = self.config.get("defaultTest")
        default = next(iter(self._listed(default)), {}) if isinstance(default, str) else default
        return default if isinstance(default, Mapping) else {}

    def _variables(self, test: Mapping[str, Any]) -> dict[str, Any]:
        given = test.get("vars")
        if isinstance(given, str):
            given = next(iter(self._listed(given)), {}).get("vars")
        return dict(given) if isinstance(given, Mapping) else {}

    def _value(self, value: object) -> object:
        return self._text(value) if isinstance(value, str) and value.startswith("file://") else value

    def _text(self, name: str) -> str | None:
        if name.endswith((".py", ".js", ".mjs", ".cjs", ".ts")) or not (sources := self._files(name)):
            self._leave_out(name)
            return None
        return sources[0].decode(sources[0].read_bytes())

    def _files(self, name: str) -> tuple[SourceFile, ...]:
        """The files that a reference names. Raises GoldenSetError for one that is outside `root`."""
        try:
            found = find_files([name.removeprefix("file://")], self.folder)
        except GoldenSetError:
            return ()
        return tuple(SourceFile(one.path, one.name, self.root, limit=MAX_DATA_BYTES) for one in found)

    def _listed(self, tests: object) -> Iterator[Mapping[str, Any]]:
        """The tests in a config, and in the files that it names."""
        for one in as_list(tests):
            if isinstance(one, Mapping) and isinstance(one.get("path"), str):
                one = one["path"]
            if isinstance(one, Mapping):
                yield one
                continue
            sources = self._files(str(one)) if PurePosixPath(str(one)).suffix.lower() in BY_ENDING else ()
            if not sources:
                self._leave_out(str(one))
            for source in sources:
                self.found.files.append(source.name)
                form = format_of(source)
                if form.is_document:
                    document = form.read(source)
                    rows = as_list(
                        document if isinstance(document, list) or "vars" in document else [{"vars": document}]
                    )
                else:
                    rows = [row.values if "vars" in row.values else _of_table(row.values) for row in form.read(source)]
                yield from (row for row in rows if isinstance(row, Mapping))


def _of_table(row: Mapping[str, object]) -> dict[str, Any]:
    """A test in a table: columns are variables, ``__expected`` and its like are assertions."""
    asserted = []
    for key, value in row.items():
        if re.fullmatch(r"__expected\d*", key) and isinstance(value, str) and value.strip():
            found = _EXPECTED.fullmatch(value.strip())
            kind = (
                {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}.get(found["type"], found["type"])
                if found
                else ""
            )
            one = (
                {"type": kind, "value": found["value"], "threshold": found["threshold"]}
                if found
                else {"type": "equals", "value": value}
            )
            asserted.append({key: item for key, item in one.items() if item is not None})
    return {"vars": {key: value for key, value in row.items() if not key.startswith("__")}, "assert": asserted}


def _metric(asserted: Mapping[str, Any]) -> str:
    """The name of an assertion's score: its type, if that is a metric here too, else the name it was given."""
    kind = str(asserted.get("type"))
    return kind if entry_of(kind) is not None else str(asserted.get("metric") or kind)


def _get(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _named(value: object, names: tuple[str, ...]) -> Any:
    """What `value` has under the first of `names`."""
    found = {normal(str(key)): one for key, one in value.items()} if isinstance(value, Mapping) else {}
    return next((found[name] for name in names if found.get(name)), None)


def _rank(name: str) -> int:
    return _QUESTIONS.index(normal(name)) if normal(name) in _QUESTIONS else 99


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _typed(body: object) -> object:
    """`body` of a YAML document, whose scalars were read as text, with booleans and numbers."""
    if isinstance(body, Mapping):
        return {str(key): _typed(value) for key, value in body.items()}
    if isinstance(body, list):
        return [_typed(value) for value in body]
    return _json(body) if isinstance(body, str) and _SCALAR.fullmatch(body) else body


def _slots(body: object, path: str) -> Iterator[tuple[str, str]]:
    """The dotted paths of texts that are one variable, such as ``{{prompt}}``, and its name."""
    items = body.items() if isinstance(body, Mapping) else enumerate(body) if isinstance(body, list) else ()
    for key, value in items:
        if isinstance(value, str) and _SLOT.fullmatch(value.strip()) and not _ENV.search(value):
            yield f"{path}{key}", normal(value)
        yield from _slots(value, f"{path}{key}.")


def _without(body: object, path: list[str]) -> Any:
    """`body` without the value at a path; in a list, what is left of its item stays."""
    if isinstance(body, Mapping):
        changed = {str(key): _without(value, path[1:]) if key == path[0] else value for key, value in body.items()}
        return {key: value for key, value in changed.items() if len(path) > 1 or key != path[0]}
    if isinstance(body, list):
        return [_without(value, path[1:]) if str(at) == path[0] else value for at, value in enumerate(body)]
    return body
