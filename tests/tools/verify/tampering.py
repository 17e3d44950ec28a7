"""Ways to tamper with a run, its attestation, or what the verifier is given: each at random, and each to be found."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragstone.app.attestation import canonical
from ragstone.errors import RagstoneError
from ragstone.run.directory import ATTESTATION, DIGESTS, MANIFEST, SAMPLES, TEST_RESULT, VERDICT
from ragstone.tools.verify.verify import State
from tests.tools.verify.world import World

Tampering = Callable[[World, random.Random], str]
"""Changes something in a world, and returns what must be named."""


_NAMES = {ATTESTATION: "attestation", SAMPLES: "records", MANIFEST: "manifest"}
"""What stands for a file of a run in what is said of it."""


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_lines(file: Path, lines: list[Any]) -> None:
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")


def write_line(file: Path, place: int, line: Any) -> None:
    """Replace one line, and leave the others as they are."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[place] = json.dumps(line, separators=(",", ":")) + "\n"
    file.write_text("".join(lines), encoding="utf-8")


def bit(world: World, rng: random.Random) -> str:
    file = rng.choice(sorted(path for path in world.run.rglob("*") if path.is_file()))
    body = bytearray(file.read_bytes())
    place = rng.randrange(len(body))
    body[place] ^= 1 << rng.randrange(8)
    file.write_bytes(body)
    return _NAMES.get(file.name, file.name)


def score(world: World, rng: random.Random) -> str:
    lines = lines_of(world.run / SAMPLES)
    line = lines[place := rng.randrange(len(lines))]
    chosen = rng.choice([one for one in line["scores"].values() if one["state"] == "scored"])
    chosen["value"] = (chosen["value"] + rng.uniform(0.01, 0.9)) % 1.0
    write_line(world.run / SAMPLES, place, line)
    return str(line["sample"]["id"])


def judgement(world: World, rng: random.Random) -> str:
    lines = lines_of(world.run / SAMPLES)
    line = lines[place := rng.randrange(len(lines))]
    chosen = rng.choice(line["judgements"][0]["support"]["supports"])
    chosen["verdict"] = "unsupported" if chosen["verdict"] == "supported" else "supported"
    write_line(world.run / SAMPLES, place, line)
    return str(line["sample"]["id"])


def left_out(world: World, rng: random.Random) -> str:
    lines = (world.run / SAMPLES).read_bytes().splitlines(keepends=True)
    gone = json.loads(lines.pop(rng.randrange(len(lines))))
    (world.run / SAMPLES).write_bytes(b"".join(lines))
    return f"'{gone['sample']['id']}' left out"


def doubled(world: World, rng: random.Random) -> str:
    lines = (world.run / SAMPLES).read_bytes().splitlines(keepends=True)
    line = rng.choice(lines)
    lines.insert(rng.randrange(len(lines)), line)
    (world.run / SAMPLES).write_bytes(b"".join(lines))
    return f"'{json.loads(line)['sample']['id']}' doubled"


def moved(world: World, rng: random.Random) -> str:
    lines = (world.run / SAMPLES).read_bytes().splitlines(keepends=True)
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    (world.run / SAMPLES).write_bytes(b"".join(lines))
    return f"'{json.loads(lines[one])['sample']['id']}' moved"


def another_runs_judgements(world: World, rng: random.Random) -> str:
    """Judgements and scores that fit together, of the same sample in another run."""
    lines, others = lines_of(world.run / SAMPLES), lines_of(world.root / "baseline" / SAMPLES)
    place = rng.choice(
        [i for i, pair in enumerate(zip(lines, others, strict=True)) if _judged(pair[0]) != _judged(pair[1])]
    )
    lines[place] |= _judged(others[place])
    write_line(world.run / SAMPLES, place, lines[place])
    return str(lines[place]["sample"]["id"])


def _judged(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("judgements", "scores")}


def another_run(world: World, rng: random.Random) -> str:
    name = rng.choice([SAMPLES, MANIFEST, VERDICT, ATTESTATION])
    shutil.copy(world.other / name, world.run / name)
    return _NAMES.get(name, name)


def in_manifest(*paths: str) -> Tampering:
    def change(world: World, rng: random.Random) -> str:
        manifest = json.loads((world.run / MANIFEST).read_text(encoding="utf-8"))
        path = rng.choice(paths)
        *above, last = path.split(".")
        table = manifest
        for name in above:
            table = table[name]
        table[last] = _other(table[last], rng)
        (world.run / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        return path

    return change


def _other(value: Any, rng: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.randint(1, 9)
    if isinstance(value, str):
        return value[:-1] + rng.choice([one for one in "0123456789" if not value.endswith(one)])
    return rng.choice(["x", 1.0])


def policy(world: World, rng: random.Random) -> str:
    file = world.root / "thresholds.toml"
    old, key = rng.choice(
        [("min = 0.1", "min"), ("max_drop = 0.05", "max_drop"), ("max_error_rate = 0.1", "max_error_rate")]
    )
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(old, f"{key} = 0.0{rng.randint(60, 99)}", 1), encoding="utf-8")
    return key


def terms(world: World, rng: random.Random) -> str:
    """The policy as the run has it."""
    body = json.loads((world.run / VERDICT).read_text(encoding="utf-8"))
    name = rng.choice(["seed", "gates", "level", "limited"])
    body["terms"][name] = _other(body["terms"][name], rng)
    (world.run / VERDICT).write_text(json.dumps(body), encoding="utf-8")
    return name


def accepted(world: World, rng: random.Random) -> str:
    file = world.root / "accepted.toml"
    text = file.read_text(encoding="utf-8")
    size = text.split("drop = ", 1)[1].split("\n", 1)[0]
    file.write_text(text.replace(f"drop = {size}", f"drop = 0.{rng.randint(5000, 9999)}"), encoding="utf-8")
    return "accepted.toml"


def golden(world: World, rng: random.Random) -> str:
    lines = lines_of(world.root / "golden.jsonl")
    place = rng.randrange(len(lines))
    name = lines[place]["id"]
    kind = rng.choice(["question", "reference", "tags", "gone", "new"])
    if kind == "gone":
        del lines[place]
    elif kind == "new":
        name = "new"
        lines.insert(place, {"id": name, "question": "What is new?", "reference": "This."})
    else:
        lines[place][kind] = ["odd", "late"] if kind == "tags" else f"{lines[place][kind]} Or not? {rng.random()}"
    write_lines(world.root / "golden.jsonl", lines)
    return f"'{name}'"


def baseline(world: World, rng: random.Random) -> str:
    folder = world.root / "baseline"
    file = folder / rng.choice([SAMPLES, MANIFEST])
    body = bytearray(file.read_bytes())
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    file.write_bytes(body)
    return "baseline"


def history(world: World, rng: random.Random) -> str:
    file = world.root / "before.jsonl"
    lines = lines_of(file)
    line = next(one for one in lines if one["kind"] == "run")
    metric = rng.choice(sorted(line["metrics"]))
    line["metrics"][metric]["mean"] = rng.random()
    write_lines(file, lines)
    return "history"


def in_attestation(world: World, rng: random.Random) -> str:
    """Any value of the attestation, which stays canonical and valid JSON."""
    file = world.run / ATTESTATION
    whole = json.loads(file.read_text(encoding="utf-8"))
    table: Any = whole
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        key = rng.choice(keys)
        if not isinstance(table[key], dict | list) or not table[key]:
            break
        table = table[key]
    table[key] = _other(table[key], rng)
    file.write_text("".join(canonical(whole)), encoding="utf-8")
    return "attestation"


def a_file_of_nobody(world: World, rng: random.Random) -> str:
    name = f"note-{rng.randrange(1000)}.txt"
    (world.run / name).write_text("Looks good to me.", encoding="utf-8")
    return name


def derived(world: World, rng: random.Random) -> str:
    name = rng.choice([DIGESTS, TEST_RESULT])
    file = world.run / name
    file.write_text(file.read_text(encoding="utf-8").replace("fail", "pass", 1).replace("FAILED", "PASSED", 1))
    return name


TAMPERINGS: tuple[Tampering, ...] = (
    *(bit, bit, score, judgement, left_out, doubled, moved, another_runs_judgements, another_run),
    in_manifest("cost.usd", "cost.calls", "cost.input_tokens"),
    in_manifest("created_at", "wall_s"),
    in_manifest("system.commit", "system.entrypoint"),
    in_manifest("judge.version", "judge.model", "golden.content_hash", "policy_hash", "baseline.reason"),
    *(policy, terms, accepted, golden, baseline, history, in_attestation, in_attestation, a_file_of_nobody, derived),
)


def found(world: World) -> str:
    """What `verify` says differs, or the error with which it refuses what it is given; empty if nothing is found."""
    try:
        parts = world.verified().values()
    except RagstoneError as error:
        return str(error)
    return "\n".join(f"{part.name}: {part.what}" for part in parts if part.state is State.DIFFERS)


def tampered(world: World, number: int, spare: Path) -> tuple[str, str, str]:
    """The name of tampering `number`, what must be named, and what was found; the world is as before then."""
    rng = random.Random(number)
    change = TAMPERINGS[number % len(TAMPERINGS)]
    shutil.copytree(world.root, spare, ignore=shutil.ignore_patterns(".git", "earlier"))
    try:
        expected = change(world, rng)
        return f"{number} {change.__qualname__}", expected, found(world)
    finally:
        for place in spare.rglob("*"):
            target = world.root / place.relative_to(spare)
            if place.is_file() and (not target.is_file() or target.read_bytes() != place.read_bytes()):
                shutil.copy(place, target)
        for place in world.run.rglob("*"):
            if not (spare / place.relative_to(world.root)).exists():
                place.unlink()
        with suppress(OSError):
            shutil.rmtree(spare)
