"""Judging on a Dask cluster: the same run to the last byte, whatever happens to the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ragstone.config.settings import JudgeSettings
from ragstone.errors import JudgeError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import Recipe
from ragstone.judge.judgements import Grade
from ragstone.judge.protocol import Call, Judge
from ragstone.metrics.custom import FunctionMetric
from ragstone.run import dask_workers
from ragstone.run.dask_workers import DaskWorkers
from ragstone.run.engine import Work, run_samples_in
from ragstone.run.record import RecordLine
from ragstone.system.response import Response
from tests.judge.local.entailment import write_entailment
from tests.judge.local.test_device import ON_CPU
from tests.run.builders import samples
from tests.run.dask_cluster import Cluster, cluster, connecting_at_most
from tests.run.test_workers import METRICS, answer, here, offline, recipe

pytestmark = pytest.mark.heavy

COUNTING = """
import os, pathlib
from ragstone.run import dask_task, worker_process

def install():
    judged, prepared = worker_process.judge_sample, dask_task._prepare
    if judged.__module__ != "ragstone.run.scoring":  # Dask runs this file twice
        return
    def write(what):
        with open(pathlib.Path({folder!r}) / what, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
    def judge_sample(*more, **named):
        write("judged")
        return judged(*more, **named)
    def prepare(run, task):
        if run not in dask_task._kept:
            write("prepared")
        return prepared(run, task)
    worker_process.judge_sample, dask_task._prepare = judge_sample, prepare

install()
"""
POISONED = """
import os
from ragstone.run import worker_process

def install():
    judged = worker_process.judge_sample
    def judge_sample(judge, metrics, sample, *more, **named):
        if sample.id == "q70":
            os._exit(3)
        return judged(judge, metrics, sample, *more, **named)
    worker_process.judge_sample = judge_sample

install()
"""
BROKEN = """
from ragstone.run import worker_process
async def judge_sample(*more, **named):
    raise KeyError("a bug of ours")
worker_process.judge_sample = judge_sample
"""
ANOTHER_VERSION = """
from ragstone import _version
_version.__version__ = "0.0.1"
"""


class Answers:
    """A system that awaits `before` each answer."""

    entrypoint = "python:world:answer"
    concurrency = 2
    can_be_asked_again = True

    def __init__(self, before: Callable[[Sample], Awaitable[None]] | None = None) -> None:
        self._before = before

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        if self._before is not None:
            await self._before(sample)
        await asyncio.sleep(0)
        return answer(sample)

    async def close(self) -> None: ...


def pool_at(address: str, golden: GoldenSet, said: list[str] | None = None, **more: object) -> DaskWorkers:
    judge = offline(golden)
    given = {"repeats": 1, "identity": judge.identity, "patience_s": 120.0, **more}
    metrics = given.pop("metrics", METRICS)
    mine = given.pop("recipe", recipe(judge))
    return DaskWorkers(address, mine, metrics, say=(said if said is not None else []).append, **given)  # type: ignore[arg-type]


async def there_are(workers: int, pool: DaskWorkers, unless: Sequence[object] = ()) -> None:
    while len(pool.threads) < workers and not unless:  # noqa: ASYNC110 - Dask tells nobody
        await asyncio.sleep(0.05)


async def run(
    pool: DaskWorkers,
    golden: GoldenSet,
    sink: Callable[[RecordLine], None],
    *,
    system: Answers | None = None,
    **more: object,
) -> None:
    metrics = more.pop("metrics", METRICS)
    try:
        await pool.start()
        asked, judge = system or Answers(), offline(golden)
        work = Work(golden, system=asked, judge=judge, metrics=metrics, **more)  # type: ignore[arg-type]
        await run_samples_in(pool, work, sink)
    finally:
        await pool.close()


def there(address: str, golden: GoldenSet, **more: object) -> list[str]:
    lines: list[str] = []
    own = {name: more[name] for name in ("repeats", "metrics") if name in more}
    asyncio.run(run(pool_at(address, golden, **own), golden, lambda one: lines.append(one.line), **more))  # type: ignore[arg-type]
    return lines


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that stay, and count."""
    folder = tmp_path_factory.mktemp("two")
    with cluster(folder) as found:
        for _ in range(2):
            found.start_worker(preload=COUNTING.format(folder=str(folder)))
        yield found


def pids(cluster: Cluster, what: str) -> list[int]:
    return [int(line) for line in (cluster.folder / what).read_text().split()]


@pytest.mark.parametrize("more", [{}, {"answers": 2, "repeats": 2}], ids=str)
def test_records_are_those_of_one_process_to_the_last_byte(two: Cluster, more: dict[str, int]) -> None:
    golden = samples(300)
    assert sorted(there(two.address, golden, **more)) == sorted(here(golden, **more))


def test_each_worker_builds_the_judge_once(two: Cluster) -> None:
    before = len(pids(two, "prepared")) if (two.folder / "prepared").exists() else 0

    async def both_are_there(_sample: Sample) -> None:
        await there_are(2, pool)

    golden = samples(600)
    pool = pool_at(two.address, golden)
    asyncio.run(run(pool, golden, lambda _: None, system=Answers(both_are_there)))
    prepared = pids(two, "prepared")[before:]
    assert sorted(prepared) == sorted(worker.pid for worker in two.workers)


def test_records_come_in_the_order_in_which_their_samples_were_answered(two: Cluster) -> None:
    golden = samples(200)
    answered: list[str] = []
    judged: list[str] = []

    async def note(sample: Sample) -> None:
        answered.append(sample.id)

    system = Answers(note)
    system.concurrency = 1
    asyncio.run(run(pool_at(two.address, golden), golden, lambda one: judged.append(one.sample_id), system=system))
    assert judged == answered == [sample.id for sample in golden]


def test_functions_of_custom_metrics_are_called_here(two: Cluster) -> None:
    golden = samples(40)
    called: list[int] = []

    async def graded(_judge: Judge, sample: Sample, _response: Response, call: Call) -> Grade:
        called.append(os.getpid())
        return Grade(int(sample.id[1:]) / 100)

    more: dict[str, object] = {"metrics": (*METRICS, FunctionMetric("mine", "1")), "custom": {"mine": graded}}
    assert sorted(there(two.address, golden, **more)) == sorted(here(golden, **more))
    assert set(called) == {os.getpid()}


def test_what_a_run_kept_is_freed_at_its_end(two: Cluster) -> None:
    from distributed import Client

    there(two.address, samples(40))

    def kept() -> int:
        import ragstone.run.dask_task

        return len(ragstone.run.dask_task._kept)

    with Client(two.address, set_as_default=False) as client:
        assert set(client.run(kept).values()) == {0}
        assert not any(client.has_what().values())


def test_neither_the_scheduler_nor_this_process_keeps_what_is_sent(two: Cluster) -> None:
    from distributed import Client

    golden = samples(1920)  # 30 batches at least
    pool = pool_at(two.address, golden)
    held: list[int] = []
    before = counter()()
    asyncio.run(run(pool, golden, lambda one: held.append(counter()()) if one.sample_id == "q1919" else None))
    with Client(two.address, set_as_default=False) as client:
        assert client.run_on_scheduler(counter()) < 15
    assert held
    assert held[0] - before < 15  # some batches are on their way


def counter() -> Callable[[], int]:
    """Counts containers with answers that were sent, in the process that it is called in."""

    def large_bytes() -> int:
        import gc

        gc.collect()
        found = 0
        for one in gc.get_objects():
            if type(one) in (list, tuple, dict):
                # Copied at once: other threads may add to it meanwhile.
                values = list(one.values() if isinstance(one, dict) else one)
                found += any(isinstance(value, bytes) and b"Nothing of the kind." in value for value in values)
        return found

    return large_bytes


# -- a cluster that changes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nanny", [False, True], ids=["for good", "with a nanny"])
def test_what_a_killed_worker_was_judging_is_judged_by_another(tmp_path: Path, nanny: bool) -> None:
    golden = samples(600)
    lines: list[str] = []
    with cluster(tmp_path / "cluster") as found:
        for _ in range(2):
            found.start_worker(nanny=nanny, preload=COUNTING.format(folder=str(found.folder)))
        pool = pool_at(found.address, golden)
        killed: list[int] = []

        async def both_are_there(_sample: Sample) -> None:
            await there_are(2, pool, killed)

        def sink(record: RecordLine) -> None:
            lines.append(record.line)
            if not killed and len(lines) >= 100:
                killed.append(pids(found, "judged")[-1])
                os.kill(killed[0], signal.SIGKILL)

        asyncio.run(run(pool, golden, sink, system=Answers(both_are_there)))
        judged = pids(found, "judged")
    assert len(killed) == 1
    assert len(set(judged)) >= 2
    assert sorted(lines) == sorted(here(golden))


def test_a_worker_that_joins_later_gets_batches_too(tmp_path: Path) -> None:
    golden = samples(600)
    lines: list[str] = []
    with cluster(tmp_path / "cluster") as found:
        count = COUNTING.format(folder=str(found.folder))
        found.start_worker(preload=count)
        pool = pool_at(found.address, golden)

        async def joins(sample: Sample) -> None:
            if sample.id == "q100":
                found.start_worker(preload=count)
            if int(sample.id[1:]) > 100:
                await there_are(2, pool)

        asyncio.run(run(pool, golden, lambda one: lines.append(one.line), system=Answers(joins)))
        assert set(pids(found, "judged")) == {worker.pid for worker in found.workers}
    assert sorted(lines) == sorted(here(golden))


def test_a_run_waits_for_its_first_worker_and_says_so(tmp_path: Path) -> None:
    golden = samples(20)
    lines: list[str] = []
    said: list[str] = []
    with cluster(tmp_path / "cluster") as found:
        pool = pool_at(found.address, golden)

        def say(line: str) -> None:
            said.append(line)
            if "waiting" in line:
                found.start_worker()

        pool._say = say
        asyncio.run(run(pool, golden, lambda one: lines.append(one.line)))
    assert sorted(lines) == sorted(here(golden))
    assert said == [
        f"The Dask cluster at {found.address} has no worker: waiting up to 120 seconds.",
        f"Judging with 1 Dask worker at {found.address}.",
    ]


def test_a_cluster_without_workers_ends_the_run(tmp_path: Path) -> None:
    with (
        cluster(tmp_path / "cluster") as found,
        pytest.raises(JudgeError, match=r"had no worker for 1 second\.(.|\n)*dask worker tcp://127") as raised,
    ):
        asyncio.run(run(pool_at(found.address, samples(3), patience_s=1.01), samples(3), lambda _: None))
    assert raised.value.exit_code == 5


def test_a_cluster_that_loses_all_its_workers_ends_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    golden = samples(600)
    done: list[str] = []
    with cluster(tmp_path / "cluster", workers=1) as found:
        pool = pool_at(found.address, golden)

        def sink(record: RecordLine) -> None:
            done.append(record.sample_id)
            if len(done) == 100:
                pool.patience_s = 0.5
                os.kill(found.workers[0].pid, signal.SIGKILL)

        with pytest.raises(JudgeError, match="had no worker for"):
            asyncio.run(run(pool, golden, sink))
    assert 100 <= len(done) < 600


@pytest.mark.parametrize(
    ("sign", "said"),
    [
        (signal.SIGKILL, r"connection with the Dask scheduler was lost\."),
        (signal.SIGSTOP, r"the Dask scheduler did not answer for \d+ seconds\."),
    ],
)
def test_a_scheduler_that_dies_or_falls_silent_ends_the_run_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals, said: str
) -> None:
    golden = samples(600)
    done: list[str] = []
    monkeypatch.setattr(dask_workers, "_SILENT_S", 10.0)
    monkeypatch.setattr(dask_workers, "_CLOSE_S", 0.5)
    with cluster(tmp_path / "cluster", workers=1) as found:

        def sink(record: RecordLine) -> None:
            done.append(record.sample_id)
            if len(done) == 100:
                assert found.scheduler is not None
                os.kill(found.scheduler.pid, sign)

        with pytest.raises(JudgeError, match=rf"{said}(.|\n)*--resume"):
            asyncio.run(asyncio.wait_for(run(pool_at(found.address, golden), golden, sink), 120))
    assert 100 <= len(done) < 600


def test_a_connection_that_is_interrupted_is_taken_up_again(tmp_path: Path) -> None:
    golden = samples(600)
    lines: list[str] = []
    open_now: set[asyncio.StreamWriter] = set()
    cuts: list[int] = []
    wires: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        open_now.discard(writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def sink(record: RecordLine) -> None:
        lines.append(record.line)
        if not cuts and len(lines) >= 100:
            cuts.append(len(open_now))
            for writer in open_now:
                writer.transport.abort()

    async def through_a_wire(port: int) -> None:
        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            wires.add(task)
            back, there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, there), pump(back, writer))

        server = await asyncio.start_server(connect, "127.0.0.1", 0)
        try:
            await run(pool_at(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", golden), golden, sink)
        finally:
            server.close()
            for writer in open_now:
                writer.transport.abort()
            await asyncio.gather(*wires)

    with cluster(tmp_path / "cluster", workers=1) as found:
        asyncio.run(through_a_wire(int(found.address.rpartition(":")[2])))
    assert cuts
    assert cuts[0] >= 2
    assert sorted(lines) == sorted(here(golden))


def test_a_sample_that_kills_the_only_worker_is_named_when_no_other_comes(tmp_path: Path) -> None:
    golden = samples(150)
    with cluster(tmp_path / "cluster") as found:
        found.start_worker(preload=POISONED)
        pool = pool_at(found.address, golden)

        async def only_for_a_while(_sample: Sample) -> None:
            pool.patience_s = 4 * dask_workers._POLL_S

        with pytest.raises(
            JudgeError, match=r"had no worker for \d seconds\. The last one was lost while it had 'q\d+'"
        ):
            asyncio.run(run(pool, golden, lambda _: None, system=Answers(only_for_a_while)))


def test_a_sample_that_kills_every_worker_ends_the_run_and_loses_nothing_else(tmp_path: Path) -> None:
    golden = samples(150)
    done: list[str] = []
    with cluster(tmp_path / "cluster") as found:
        for _ in range(4):
            found.start_worker(preload=POISONED)
        pool = pool_at(found.address, golden)

        async def all_are_there(_sample: Sample) -> None:
            await there_are(4, pool, done)

        # Dask itself may have tried a second worker for each that is counted here, so that none is left for the third.
        lost = r"3 workers of the Dask cluster were lost, one after the other, while|The last one was lost while it had"
        with pytest.raises(JudgeError, match=lost):
            asyncio.run(run(pool, golden, lambda one: done.append(one.sample_id), system=Answers(all_are_there)))
    assert "q70" not in done
    assert len(done) == len(set(done))


# -- workers that are not what they should be --------------------------------------------------------------------------


def fake_version(folder: Path, package: str = "ragstone") -> dict[str, str]:
    """An environment in which another version of `package` seems to be installed."""
    metadata = folder / f"{package.replace('-', '_')}-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n")
    return {"PYTHONPATH": str(folder)}


def test_another_version_on_a_worker_is_named_before_anything_is_judged(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as found:
        found.start_worker(environ=fake_version(tmp_path / "fake"))
        with pytest.raises(JudgeError, match=r"1 process .* differs(.|\n)*worker tcp://.*: ragstone 0\.0\.1 \(here"):
            there(found.address, samples(3))


def test_so_is_another_runtime_for_a_local_model(tmp_path: Path) -> None:
    golden = samples(3)
    model = Recipe(JudgeSettings(name=f"local:{tmp_path / 'nli'}"), recipe(offline(golden)).rarity)
    with cluster(tmp_path / "cluster") as found:
        found.start_worker(environ=fake_version(tmp_path / "fake", "onnxruntime-gpu"))
        with pytest.raises(JudgeError, match=r"worker tcp://.*: onnxruntime-gpu 0\.0\.1 \(here"):
            asyncio.run(run(pool_at(found.address, golden, recipe=model), golden, lambda _: None))


def test_a_worker_of_another_version_that_joins_later_is_not_believed(tmp_path: Path) -> None:
    golden = samples(600)
    with cluster(tmp_path / "cluster", workers=1) as found:
        pool = pool_at(found.address, golden)

        async def joins(sample: Sample) -> None:
            if sample.id == "q100":
                found.start_worker(preload=ANOTHER_VERSION)
            if int(sample.id[1:]) > 100:
                await there_are(2, pool)

        with pytest.raises(JudgeError, match=r"Dask worker tcp://.*differs from this process: ragstone 0\.0\.1 \(here"):
            asyncio.run(run(pool, golden, lambda _: None, system=Answers(joins)))


def test_a_worker_with_another_judge_is_not_believed(two: Cluster) -> None:
    golden = samples(3)
    other = type(offline(golden).identity)("offline", "embedded", "another")
    with pytest.raises(JudgeError, match="built a different judge"):
        asyncio.run(run(pool_at(two.address, golden, identity=other), golden, lambda _: None))


def test_a_model_that_is_not_on_the_worker_is_named_with_the_worker(two: Cluster, tmp_path: Path) -> None:
    golden = samples(3)
    gone = Recipe(JudgeSettings(name=f"local:{tmp_path / 'gone'}"), recipe(offline(golden)).rarity)
    with pytest.raises(JudgeError, match=r"Dask worker tcp://(.|\n)*gone"):
        asyncio.run(run(pool_at(two.address, golden, recipe=gone), golden, lambda _: None))


@ON_CPU
def test_a_gpu_that_a_worker_does_not_have_is_named_with_the_worker(two: Cluster, tmp_path: Path) -> None:
    golden = samples(3)
    settings = {"name": f"local:{write_entailment(tmp_path / 'nli')}", "local": {"device": "cuda"}}
    gpu = Recipe(JudgeSettings.model_validate(settings), recipe(offline(golden)).rarity)
    with pytest.raises(JudgeError, match=r"Dask worker tcp://.*, judge\.local\.device: no GPU can be used"):
        asyncio.run(run(pool_at(two.address, golden, recipe=gpu), golden, lambda _: None))


def test_an_error_on_a_worker_is_raised_here_with_its_traceback(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as found:
        found.start_worker(preload=BROKEN)
        with pytest.raises(RuntimeError, match=r"(?s)Traceback.*KeyError: 'a bug of ours'"):
            there(found.address, samples(3))


def test_nobody_at_the_address() -> None:
    with (
        connecting_at_most("1s"),
        pytest.raises(JudgeError, match="no connection with the Dask scheduler") as raised,
    ):
        there("tcp://127.0.0.1:1", samples(3))
    assert raised.value.exit_code == 5


def test_whoever_accepts_the_connection_and_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, connecting_at_most("1s"):
        pool = pool_at(f"tcp://127.0.0.1:{silent.getsockname()[1]}", samples(3))
        with pytest.raises(JudgeError, match=r"the Dask scheduler did not answer for \d+ seconds") as raised:
            asyncio.run(asyncio.wait_for(run(pool, samples(3), lambda _: None), 30))
    assert raised.value.exit_code == 5
