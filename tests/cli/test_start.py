from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import a_dataset
from tests.cli.conftest import Stream
from wdsctl.cli import start
from wdsctl.cli.start import is_configured, plain_get
from wdsctl.core.verbs.index import index


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["get", "d", "k"], {}),
        (["get", "d", "-p", "jpg", "k", "-o", "out.jpg"], {"part": "jpg", "output": "out.jpg"}),
        (["get", "d", "k", "--part=jpg", "--shard", "a.tar"], {"part": "jpg", "shard": "a.tar"}),
    ],
)
def test_a_plain_get_is_recognised(monkeypatch: pytest.MonkeyPatch, words: list[str], options: dict[str, str]) -> None:
    monkeypatch.setattr(sys, "stdout", Stream())
    assert plain_get(words) == ("d", "k", options)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["ls", "d", "k"],
        ["get", "d"],
        ["get", "d", "k", "more"],
        ["get", "d", "k", "--json"],
        ["get", "d", "k", "-n"],
        ["get", "d", "k", "--part"],
        ["get", "d", "k", "-o", "folder/"],
        ["get", "--help"],
        ["get", "d", "--", "k"],
    ],
)
def test_anything_else_goes_the_long_way(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(sys, "stdout", Stream())
    assert plain_get(words) is None
    monkeypatch.setattr(sys, "stdout", Stream(is_terminal=True))
    assert plain_get(["get", "d", "k"]) is None


def test_a_configuration_sends_everything_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    calm = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "WDSCTL_CATALOG": "c"}
    (tmp_path / "wdsctl.toml").write_text("")
    assert not is_configured(calm)
    assert is_configured(calm | {"WDSCTL_GET_PART": "jpg"})
    monkeypatch.chdir(tmp_path)
    assert is_configured(calm)  # for a note: it is not used
    monkeypatch.chdir(tmp_path / "inner")
    (tmp_path / "me" / ".config" / "wdsctl").mkdir(parents=True)
    assert is_configured(calm)
    (tmp_path / "me" / ".config" / "wdsctl").rmdir()
    (tmp_path / "config" / "wdsctl").mkdir(parents=True)
    assert is_configured(calm)


def test_a_plain_get_imports_nothing_that_parses_or_computes(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"1.txt": b"one"}})
    index(root)
    program = """
import sys
sys.argv[1:] = sys.argv[1:]
from wdsctl.cli.start import quick_get
code = quick_get(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "get", root, "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
    )
    code, *loaded = done.stderr.split()
    assert (code, done.stdout) == ("0", "one")
    assert not {"typer", "rich", "pydantic", "numpy", "sqlalchemy", "fsspec", "yaml", "torch", "PIL", "av"} & set(
        loaded
    )


def test_who_interrupts_it_while_it_starts_sees_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "wdsctl.cli.main":
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["wdsctl", "index", "shards"])
    monkeypatch.delitem(sys.modules, "wdsctl.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])

    with pytest.raises(SystemExit) as ended:
        start.run()
    assert ended.value.code == 130
    assert capsys.readouterr().err == f"{start.INTERRUPTED}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_nobodys_bug(tmp_path: Path, closed: str) -> None:
    root = a_dataset(tmp_path / "d", {"0.tar": {"x.txt": b"x"}})
    command = f'"{sys.executable}" -m wdsctl prepare "{root}" --workers 1 {closed}'
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, "bug" in ended.stderr) == (0, False)
    assert ("0.tar" in ended.stdout or "1 shard" in ended.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])  # alone, and where what is opened gets the number at once
def test_what_we_start_has_the_streams_that_were_closed(closed: str) -> None:
    look = 'import os, sys; sys.exit([i for i in range(3) if not os.path.exists(f"/proc/self/fd/{i}")] or 0)'
    program = (
        "import os, sys; from wdsctl.cli.start import open_what_is_closed; open_what_is_closed();"
        f"os.execv(sys.executable, [sys.executable, '-c', {look!r}])"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {closed}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux tells them")
@pytest.mark.parametrize(("asked", "used"), [(None, "1"), ("3", "3")])
def test_numpy_starts_no_threads_for_work_that_no_command_has(tmp_path: Path, asked: str | None, used: str) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n'})
    program = """
import os, sys, time
from wdsctl.cli.start import run
try:
    run()
except SystemExit:
    used = os.environ["OPENBLAS_NUM_THREADS"]
    until_s = time.monotonic() + 10  # our own threads have been told to end, and are listed until they have
    while len(os.listdir("/proc/self/task")) > int(used) and time.monotonic() < until_s:
        time.sleep(0.01)
    print(used, "numpy" in sys.modules, len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if asked is not None:
        environment["OPENBLAS_NUM_THREADS"] = asked
    done = subprocess.run(
        [sys.executable, "-c", program, "index", root], env=environment, capture_output=True, text=True, check=True
    )

    said, imported, threads = done.stdout.splitlines()[-1].split()
    assert (said, imported) == (used, "True")
    assert int(threads) <= int(used)
