"""What a child gets to see: proved by looking from inside real children."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.system.environment import RunAs, child_environment, missing_variable_hint, substituted
from tests.needs import needs_root
from tests.system.service import failure

SECRETS = {
    **dict.fromkeys(["RAGSTONE_JUDGE_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_OUTPUT"], "x"),
    **dict.fromkeys(["INPUT_JUDGE-API-KEY", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "AWS_SECRET_ACCESS_KEY"], "x"),
    "MY_APP_KEY": "mine",
    "MY_APP_URL": "https://example.org",
}
DUMP = """
import json, os
def answer(question):
    return json.dumps(dict(os.environ))
if __name__ == "__main__":
    input()
    print(json.dumps({"answer": answer("")}), flush=True)
"""


def dumped(room: Any, entrypoint: str = "app:answer", **settings: object) -> dict[str, str]:
    room.app(DUMP)
    return dict(json.loads(room.ask(entrypoint, "q", **settings)[0].answer))


@pytest.mark.parametrize("entrypoint", ["app:answer", f"command:{sys.executable} app.py"])
def test_a_child_sees_the_allow_list_and_nothing_more(room: Any, entrypoint: str) -> None:
    allowed = {"PATH": os.environ["PATH"], "HOME": "/home/me", "LANG": "C.UTF-8", "LC_TIME": "C"}
    room.environ = {**allowed, **SECRETS}
    python_adds = {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert set(dumped(room, entrypoint)) - python_adds == set(allowed)


@pytest.mark.parametrize(
    "name",
    ["RAGSTONE_JUDGE_API_KEY", "github_token", "GITHUB_OUTPUT", "INPUT_ENTRYPOINT", "ACTIONS_*", "*", "**", "?*"],
)
def test_asking_for_them_by_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"system\.env"):
        child_environment(["MY_APP_KEY", name], SECRETS)


@pytest.mark.parametrize(
    ("names", "passed"),
    [
        (["OPENAI_API_KEY", "MY_APP_*", "NOT_SET"], {"OPENAI_API_KEY", "MY_APP_KEY", "MY_APP_URL"}),
        (["MY_APP_K?Y"], {"MY_APP_KEY"}),
        (["GH_TOKEN"], {"GH_TOKEN"}),
        *((["MY_APP_KEY", pattern], {"MY_APP_KEY"}) for pattern in ("*_TOKEN", "G*", "R*", "*TOKEN*")),
    ],
)
def test_named_variables_are_passed_on_and_no_pattern_reaches_those_of_ragstone_or_github(
    names: list[str], passed: set[str]
) -> None:
    assert set(child_environment(names, SECRETS)) == passed


def test_a_header_takes_only_variables_that_are_passed_on() -> None:
    assert substituted("Bearer ${MY_APP_KEY}", ["MY_APP_KEY"], SECRETS, where="h") == "Bearer mine"
    with pytest.raises(ConfigError, match="add 'MY_APP_KEY' to env"):
        substituted("${MY_APP_KEY}", [], SECRETS, where="h")
    with pytest.raises(ConfigError, match="NOWHERE is not set"):
        substituted("${NOWHERE}", ["NOWHERE"], SECRETS, where="h")
    with pytest.raises(ConfigError, match="must not be passed"):
        substituted("${GITHUB_TOKEN}", ["*_TOKEN"], SECRETS, where="h")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are listed by Linux's /proc")
def test_no_file_of_ragstones_is_open_in_a_child(room: Any) -> None:
    secret = room.write("secret.txt", "secret")
    room.app("""
        import os
        def answer(question):
            links = []
            for fd in os.listdir("/proc/self/fd"):
                try: links.append(os.readlink("/proc/self/fd/" + fd))
                except OSError: pass
            return "\\n".join(links)
    """)
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        links = room.ask("app:answer", "q")[0].answer.split("\n")
    assert all(link.startswith(("pipe:", "socket:", "anon_inode:", "/dev/null", "/proc/")) for link in links), links


def open_to_all(path: Path) -> None:
    """Let any user pass through the folders above pytest's private one."""
    for folder in [path, *path.parents]:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)


@needs_root
def test_children_run_as_the_user_that_is_asked_for(room: Any) -> None:
    open_to_all(room.folder)
    home = room.folder / "home"
    home.mkdir()
    os.chown(home, 4321, 1234)
    room.environ = {"PATH": "/usr/bin:/bin", "HOME": "/home/gate", "USER": "gate", "LOGNAME": "gate"}
    room.run_as = RunAs(4321, 1234, home)
    room.write(
        "rag.py",
        """
        import json, os, pathlib, sys
        for line in sys.stdin:
            (pathlib.Path.home() / "mine").write_text("written")
            seen = {"ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()], "groups": os.getgroups(),
                    "home": os.environ["HOME"], "user": os.environ.get("USER"), "cwd": os.getcwd()}
            try:
                open(f"/proc/{os.getppid()}/environ").read()
                seen["environ"] = "readable"
            except PermissionError:
                seen["environ"] = "refused"
            print(json.dumps({"answer": json.dumps(seen)}), flush=True)
        """,
    )
    seen = json.loads(room.ask("command:/usr/bin/python3 rag.py", "q")[0].answer)
    assert seen == {
        "ids": [4321, 4321, 1234, 1234],
        "groups": [],
        "home": str(home),
        "user": None,
        "cwd": str(room.folder.resolve()),
        "environ": "refused",
    }
    assert (home / "mine").stat().st_uid == 4321


@needs_root
def test_a_worker_runs_as_another_user_without_reading_ragstones_files_and_can_be_killed(room: Any) -> None:
    open_to_all(room.folder)
    room.environ = {"PATH": "/usr/bin:/bin"}
    room.run_as = RunAs(4321, 1234, room.folder)
    room.app(
        "import os, time\ndef answer(q):\n    time.sleep(600 if q == 'hang' else 0)\n    return str(os.getuid())\n"
    )
    first, hung = room.ask("app:answer", "q", "hang", python="/usr/bin/python3", timeout_s=1)
    assert (first.answer, failure(hung).kind) == ("4321", "timeout")


KEYED = """
import os, sys

def answer(question): return os.environ["SHOP_API_KEY"]
"""


NOT_PASSED = 'SHOP_API_KEY is not passed to your system: set it, and add "SHOP_API_KEY" to env under [system].'
SET = {"SHOP_API_KEY": "a-secret-value"}


@pytest.mark.parametrize(
    ("text", "environ", "names", "says"),
    [
        ("KeyError: 'SHOP_API_KEY'", SET, [], NOT_PASSED),
        ("'SHOP_API_KEY'", {}, [], NOT_PASSED),
        ("'SHOP_API_KEY'", SET, ["SHOP_API_KEY"], None),
        ("'SHOP_URL'", {}, [], None),
        ("'GITHUB_TOKEN' and 'ACTIONS_X'", {"ACTIONS_X": "x", "GITHUB_TOKEN": "t"}, [], None),
    ],
)
def test_a_failure_for_want_of_a_key_names_the_setting_that_passes_it(
    text: str, environ: dict[str, str], names: list[str], says: str | None
) -> None:
    assert missing_variable_hint(text, environ, child_environment(names, environ)) == says


def test_a_question_that_fails_of_it_says_so_without_the_key(room: Any) -> None:
    room.app(KEYED)
    room.environ |= SET
    found = failure(room.ask("app:answer", "q", retries=0)[0])
    assert NOT_PASSED in found.message
    assert "a-secret-value" not in f"{found.message}{found.detail}"


def test_a_system_that_can_not_start_without_its_key_says_which_setting_passes_it(room: Any) -> None:
    room.app(KEYED + '\nkey = os.environ["SHOP_API_KEY"]\n')
    room.write("rag.py", KEYED + '\nif "SHOP_API_KEY" not in os.environ: sys.exit("set SHOP_API_KEY")\n')
    room.environ["SHOP_API_KEY"] = "a-secret-value"
    for entrypoint in ("app:answer", f"command:{sys.executable} rag.py"):
        with pytest.raises(SystemUnderTestError) as caught:
            room.ask(entrypoint, "q")
        assert 'add "SHOP_API_KEY" to env under [system]' in str(caught.value.hint)
