"""Judging in worker processes: the same run to the last byte, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.config.load import load_settings
from ragstone.config.settings import JudgeSettings, RunSettings, Settings
from ragstone.errors import JudgeError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge import factory
from ragstone.judge.factory import Recipe, build_judge, recipe_of, usable_cores
from ragstone.judge.judgements import Grade
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.metrics.custom import FunctionMetric
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import select_metrics
from ragstone.rounds.context import RunContext
from ragstone.run import workers as pool
from ragstone.run.engine import Work, run_samples, run_samples_in
from ragstone.run.record import RecordLine, SampleRecord
from ragstone.run.serialise import record_to_line
from ragstone.run.worker_process import Job, Trouble, decode_reply, encode_reply
from ragstone.run.workers import Workers, how_many
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.project.asked import evaluate_run
from tests.run.builders import Answering, samples

METRICS: tuple[Metric, ...] = (*select_metrics(), *select_metrics(["answer_stability"]))


def answer(sample: Sample) -> Response:
    number = int(sample.id[1:])
    if number % 17 == 3:
        return Response(sample.id, failure=SystemFailure(SystemFailureKind.RAISED, "ValueError: é\nno"))
    contexts = (Context(f"Answer {number}. It was built in {1900 + number}."), Context("Nothing of the kind."))
    return Response(sample.id, f"Answer {number}. It was built in {1901 + number} 🏠.", contexts, usage=None)


def offline(golden: GoldenSet) -> Judge:
    return build_judge(JudgeSettings(), golden_set=golden, cache=None, environ={})


def recipe(judge: Judge) -> Recipe:
    found = recipe_of(judge, JudgeSettings())
    assert found is not None
    return found


async def in_workers(
    golden: GoldenSet,
    sink: Callable[[RecordLine], None],
    *,
    count: int = 2,
    behave: Callable[[Sample, Workers], Response] = lambda sample, _workers: answer(sample),
    concurrency: int = 2,
    **more: object,
) -> None:
    judge = offline(golden)
    metrics = more.pop("metrics", METRICS)
    assert isinstance(metrics, tuple)
    repeats = more.get("repeats", 1)
    assert isinstance(repeats, int)
    workers = Workers(count, recipe(judge), metrics, repeats=repeats, identity=judge.identity)
    try:
        await workers.start()
        system = Answering(lambda sample: behave(sample, workers), concurrency)
        await run_samples_in(workers, Work(golden, system=system, judge=judge, metrics=metrics, **more), sink)  # type: ignore[arg-type]
    finally:
        await workers.close()


def here(golden: GoldenSet, **more: object) -> list[str]:
    lines: list[str] = []

    def sink(record: SampleRecord) -> None:
        lines.append(record_to_line(record))

    metrics = more.pop("metrics", METRICS)
    run = run_samples(Work(golden, system=Answering(answer), judge=offline(golden), metrics=metrics, **more), sink)  # type: ignore[arg-type]
    asyncio.run(run)
    return lines


def there(golden: GoldenSet, **more: object) -> list[str]:
    lines: list[str] = []
    asyncio.run(in_workers(golden, lambda record: lines.append(record.line), **more))  # type: ignore[arg-type]
    return lines


@pytest.mark.parametrize("more", [{}, {"repeats": 2}, {"answers": 2}, {"answers": 2, "repeats": 3}], ids=str)
def test_records_are_those_of_one_process_to_the_last_byte_and_in_its_order(more: dict[str, int]) -> None:
    golden = samples(150)
    assert sorted(there(golden, **more)) == sorted(here(golden, **more))


def test_records_come_in_the_order_in_which_their_samples_were_answered() -> None:
    golden = samples(200)
    long = "The mill stands on the hill above the old town, and it was built in 1850. "
    answered: list[str] = []
    judged: list[str] = []

    def behave(sample: Sample, _workers: Workers) -> Response:
        answered.append(sample.id)
        # Every fortieth answer takes long to judge, so that those after it are ready before it.
        return Response(sample.id, long * (60 if int(sample.id[1:]) % 40 == 0 else 1), (Context(long * 30),))

    asyncio.run(in_workers(golden, lambda record: judged.append(record.sample_id), behave=behave, concurrency=1))
    assert judged == answered == [sample.id for sample in golden]


def test_custom_grades_are_had_here_and_scored_there() -> None:
    golden = samples(40)
    calls: list[tuple[str, int]] = []

    async def graded(_judge: Judge, sample: Sample, _response: Response, call: Call) -> Grade:
        number = int(sample.id[1:])
        calls.append((sample.id, call.repeat))
        call.ledger.add(type(call.ledger)(calls=1, cost_usd=0.25))
        if number % 5 == 0:
            raise JudgementFailed("the function raised KeyError", not_applicable=number % 10 == 0)
        return Grade(None if number % 7 == 0 else number / 100 + call.repeat / 1000, note="why")

    metrics = (*METRICS, FunctionMetric("mine", "1"))
    more: dict[str, object] = {"metrics": metrics, "custom": {"mine": graded}, "repeats": 2}
    expected = here(golden, **more)
    first, calls[:] = list(calls), []
    assert sorted(there(golden, **more)) == sorted(expected)
    assert sorted(calls) == sorted(first)
    assert sum('"cost_usd":0.5' in line for line in expected) == 37  # all but those without an answer


def run_project(tmp_path: Path, name: str, **overrides: object) -> Path:
    settings = load_settings(
        directory=tmp_path,
        environ={},
        overrides={
            "golden.paths": (str(tmp_path / "golden.jsonl"),),
            "system.entrypoint": f"file:{tmp_path / 'out.jsonl'}",
            "run.out": str(tmp_path / name),
            **overrides,
        },
    )
    asyncio.run(evaluate_run(settings, RunContext(environ={})))
    return tmp_path / name


def test_a_run_directory_is_the_same(tmp_path: Path) -> None:
    rows = [(f"q{i}", f"Where is mill {i}?", f"On hill {i}.") for i in range(120)]
    (tmp_path / "golden.jsonl").write_text(
        "".join(json.dumps({"id": a, "question": b, "reference": c}) + "\n" for a, b, c in rows)
    )
    (tmp_path / "out.jsonl").write_text(
        "".join(
            json.dumps(
                {"id": a, "answer": c, "contexts": [f"{b} {c}"], "usage": {"input_tokens": 7, "output_tokens": 2}}
            )
            + "\n"
            for a, b, c in rows[:-5]  # the last ones have no recorded answer
        )
    )
    one, two = (run_project(tmp_path, f"run-{n}", **{"run.workers": n}) for n in (1, 2))
    assert (one / "samples.jsonl").read_bytes() == (two / "samples.jsonl").read_bytes()
    manifests = [json.loads((run / "manifest.json").read_text()) for run in (one, two)]
    for manifest in manifests:
        for name in ("created_at", "wall_s", "invocation"):
            manifest.pop(name)
    assert manifests[0] == manifests[1]
    assert manifests[0]["counts"]["system_failed"] == 5
    assert manifests[0]["usage"]["reported"] == 115


# -- workers that die --------------------------------------------------------------------------------------------------


def test_what_a_killed_worker_was_doing_is_done_again() -> None:
    golden = samples(400)
    lines: list[str] = []
    pools: set[Workers] = set()
    first: list[int] = []  # the two that are started first: what takes the place of a killed one is left alone
    killed: set[int] = set()

    def behave(sample: Sample, workers: Workers) -> Response:
        pools.add(workers)
        return answer(sample)

    def sink(record: RecordLine) -> None:
        lines.append(record.line)
        (workers,) = pools
        first.extend(pid for pid in workers.pids if len(first) < 2 and pid not in first)
        if len(lines) >= 40 * (len(killed) + 1) and len(first) == 2 > len(killed):
            killed.add(first[len(killed)])
            os.kill(first[len(killed) - 1], signal.SIGKILL)

    asyncio.run(in_workers(golden, sink, behave=behave))
    assert len(killed) == 2
    assert sorted(lines) == sorted(here(golden))


def test_a_sample_that_kills_every_worker_ends_the_run_and_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = samples(150)
    done: list[str] = []
    # A worker that ends as soon as it has read a batch with this sample.
    monkeypatch.setattr(
        pool,
        "_START",
        "import json, os, sys; sys.path[:] = json.loads(sys.argv.pop())\n"
        "from ragstone.run import worker_process as w\n"
        "judged = w.judge_sample\n"
        "def judge_sample(judge, metrics, sample, *more, **named):\n"
        "    if sample.id == 'q70': print('out of memory', file=sys.stderr, flush=True); os._exit(3)\n"
        "    return judged(judge, metrics, sample, *more, **named)\n"
        "w.judge_sample = judge_sample\n"
        "w.main()",
    )
    with pytest.raises(JudgeError, match=r"(?s)a worker process exited with status 3 while it judged .*out of memory"):
        asyncio.run(in_workers(golden, lambda record: done.append(record.sample_id)))
    assert "q70" not in done
    assert len(done) == len(set(done))
    assert {f"q{i}" for i in range(32)} <= set(done)


def test_an_error_in_a_worker_is_raised_here_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pool,
        "_START",
        "import json, sys; sys.path[:] = json.loads(sys.argv.pop())\n"
        "from ragstone.run import worker_process as w\n"
        "async def judge_sample(*more, **named): raise KeyError('a bug of ours')\n"
        "w.judge_sample = judge_sample\n"
        "w.main()",
    )
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*KeyError: 'a bug of ours'"):
        there(samples(3))


def test_a_worker_with_another_judge_is_not_believed() -> None:
    golden = samples(3)
    judge = offline(golden)

    async def run() -> None:
        other = type(judge.identity)("offline", "embedded", "another")
        workers = Workers(1, recipe(judge), METRICS, repeats=1, identity=other)
        try:
            await workers.start()
            await run_samples_in(
                workers, Work(golden, system=Answering(answer), judge=judge, metrics=METRICS), lambda _: None
            )
        finally:
            await workers.close()

    with pytest.raises(JudgeError, match="built a different judge"):
        asyncio.run(run())


def test_a_judge_that_can_t_be_built_there_says_why(tmp_path: Path) -> None:
    golden = samples(3)
    judge = offline(golden)
    gone = Recipe(JudgeSettings(name=f"local:{tmp_path / 'gone'}"), recipe(judge).rarity)

    async def run() -> None:
        workers = Workers(1, gone, METRICS, repeats=1, identity=judge.identity)
        try:
            await workers.start()
            await run_samples_in(
                workers, Work(golden, system=Answering(answer), judge=judge, metrics=METRICS), lambda _: None
            )
        finally:
            await workers.close()

    with pytest.raises(JudgeError, match="gone"):
        asyncio.run(run())


def test_no_process_is_left_when_the_run_is_cancelled() -> None:
    pids: list[int] = []
    runs: list[asyncio.Task[None]] = []

    def behave(sample: Sample, workers: Workers) -> Response:
        pids[:] = workers.pids
        if sample.id == "q100":
            runs[0].cancel()
        return answer(sample)

    async def cancelled() -> None:
        runs.append(asyncio.create_task(in_workers(samples(150), lambda _: None, behave=behave)))
        await runs[0]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(pids) == 2
    assert gone(pids)


def gone(pids: list[int]) -> bool:
    """Whether all of these processes end in the next seconds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not any(
            Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text() for pid in pids
        ):
            return True
        time.sleep(0.05)
    return False


# -- what a worker gets ------------------------------------------------------------------------------------------------


def test_a_worker_has_no_environment_and_reads_no_code_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("import os; os._exit(77)")
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(78)")
    (tmp_path / "ragstone").mkdir()
    (tmp_path / "ragstone" / "__init__.py").write_text("import os; os._exit(79)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", "sk-very-private")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.syspath_prepend("")
    found: list[str] = []

    def behave(sample: Sample, workers: Workers) -> Response:
        for pid in workers.pids:
            found.append(Path(f"/proc/{pid}/environ").read_text() + Path(f"/proc/{pid}/cmdline").read_text())
        return answer(sample)

    assert sorted(there(samples(20), behave=behave)) == sorted(here(samples(20)))
    assert len(found) == 40
    assert not any("private" in text or "PYTHON" in text or "HOME=" in text for text in found)
    assert all("CUDA_VISIBLE_DEVICES=3" in text for text in found)


def test_what_comes_back_is_read_as_text_and_numbers() -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return os.kill, (os.getpid(), signal.SIGKILL)

    job = Job(Sample("q1", "?"), (), (), Call("q1").ledger)
    with pytest.raises(ValueError, match=r"utf-8|Expecting value"):
        decode_reply(pickle.dumps(Hostile()), [job])


def test_lines_with_any_character_come_back_as_they_were() -> None:
    job = Job(Sample("q1", "?"), (), (), Call("q1").ledger)
    line = RecordLine("q1", (), "scored", Call("q1").ledger, 'é\u2028 \ud800 🏠 "\\n"')
    reply = decode_reply(encode_reply([line, line], Trouble("JudgeError", "é")), [job, job])
    assert [one.line for one in reply.records] == [line.line, line.line]
    assert reply.trouble == Trouble("JudgeError", "é")


def test_a_reply_that_lacks_records_says_why() -> None:
    job = Job(Sample("q1", "?"), (), (), Call("q1").ledger)
    line = RecordLine("q1", (), "scored", Call("q1").ledger, "{}\n")
    assert len(decode_reply(encode_reply([line], Trouble(None, "a bug")), [job, job]).records) == 1
    with pytest.raises(ValueError, match="1 of 2 records"):
        decode_reply(encode_reply([line], None), [job, job])


def test_no_secret_is_sent() -> None:
    settings = JudgeSettings.model_validate(
        {"api_key": "sk-mine-1", "headers": "X: sk-mine-2", "embeddings_api_key": "sk-mine-3"}
    )
    judge = offline(samples(1))
    found = recipe_of(judge, settings)
    assert found is not None
    assert b"sk-mine" not in pickle.dumps(found)


# -- how many ----------------------------------------------------------------------------------------------------------


def test_judges_that_can_t_be_built_elsewhere_stay_here() -> None:
    class Own(OfflineJudge):
        pass

    assert recipe_of(Own(), JudgeSettings()) is None
    assert recipe_of(OfflineJudge(), JudgeSettings(name="openai:gpt-x")) is None
    assert recipe_of(OfflineJudge(), JudgeSettings(embeddings="openai-compatible:e")) is None
    assert recipe_of(OfflineJudge(), JudgeSettings()) is not None


def test_auto_takes_every_core_but_none_for_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = recipe(OfflineJudge())
    model = Recipe(JudgeSettings(name="local:nli"), found.rarity)
    monkeypatch.setattr(pool, "usable_cores", lambda: 8)
    auto = RunSettings().workers
    assert auto == "auto"
    assert [how_many(auto, found, n) for n in (0, 50, 499, 500, 100_000)] == [0, 0, 0, 8, 8]
    assert [how_many(auto, model, n) for n in (50, 100)] == [0, 4]
    assert how_many(auto, found, 100, judged=5) == 8
    on_gpu = {"local": {"device": "cuda"}}
    for judge in ({"name": "local:nli"}, {"embeddings": "local:minilm"}):
        gpu = Recipe(JudgeSettings.model_validate({**judge, **on_gpu}), found.rarity)
        assert [how_many(auto, gpu, 100_000), how_many(2, gpu, 100_000)] == [0, 2]
    assert how_many(auto, Recipe(JudgeSettings.model_validate(on_gpu), found.rarity), 500) == 8
    assert how_many(auto, None, 100_000) == 0
    assert [how_many(n, found, 50) for n in (1, 3, 64)] == [0, 3, 50]
    monkeypatch.setattr(pool, "usable_cores", lambda: 1)
    assert how_many(auto, found, 100_000) == 0


def test_the_cores_of_a_container_are_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(factory, "_CGROUP", limit)
    assert usable_cores() == 64
    for text, cores in (("max 100000\n", 64), ("250000 100000\n", 2), ("50000 100000\n", 1)):
        limit.write_text(text)
        assert usable_cores() == cores


def test_the_threads_of_a_model_are_divided_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "usable_cores", lambda: 4)
    model = Recipe(JudgeSettings(name="local:nli"), recipe(OfflineJudge()).rarity)
    assert [model.shared_by(n).settings.local.threads for n in (1, 2, 4, 8)] == [4, 2, 1, 1]
    own = Recipe(JudgeSettings.model_validate({"name": "local:nli", "local": {"threads": 3}}), model.rarity)
    assert own.shared_by(4).settings.local.threads == 3


@pytest.mark.parametrize("wrong", [0, 65, "two", -1])
def test_other_numbers_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="workers"):
        Settings.model_validate({"run": {"workers": wrong}})
