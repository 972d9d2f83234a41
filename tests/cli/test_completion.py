from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar
from tests.cli.test_startup import HEAVY


@pytest.fixture
def root(wdsctl: Wdsctl, shards: Path) -> Path:
    wdsctl("index", shards)
    wdsctl("split", shards, "train=8,trial=1,val=1")
    wdsctl("split", shards, "a=1,b=1", "--set", "halves")
    wdsctl("view", "create", shards, "first", "--where", "position = 0")
    return shards


def complete(*words: object, light: Collection[str] = ()) -> list[str]:
    """The completions of the last word in bash. `light`: heavy modules that may be loaded here."""
    environment = os.environ | {
        "_WDSCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["wdsctl", *(shlex.quote(str(word)) for word in words)]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "wdsctl"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert loaded.isdisjoint(set(HEAVY) - {"sqlite3", *light})
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("ls", "ROOT", "--split", "tr"), ["train", "trial"]),
        (("inspect", "ROOT", "--split", "v"), ["val"]),
        (("view", "show", "ROOT", "f"), ["first"]),
        (("get", "ROOT", "3/"), ["3/0000", "3/0001", "3/0002"]),
        (("get", "ROOT", "3/0000", "--part", "t"), ["txt"]),
        (("get", "ROOT", "3/0000", "--shard", "train-000009"), ["train-000009.tar"]),
        (("explain", "WDS10"), [f"WDS10{i}" for i in range(1, 10)]),
        (("vali",), ["validate"]),
        (("validate", "ROOT", "--level", "h"), ["headers", "hashes"]),
        (("validate", "ROOT", "--level", "headers,h"), ["headers,hashes"]),
        (("split", "ROOT", "--set", ""), ["halves"]),
        (("diff", "ROOT", "--cont"), ["--content"]),
    ],
)
def test_completion_offers_names_without_heavy_imports(root: Path, words: tuple[str, ...], names: list[str]) -> None:
    assert complete(*(root if word == "ROOT" else word for word in words)) == names


def test_completion_offers_keys_of_lines(wdsctl: Wdsctl, tmp_path: Path) -> None:
    lines = tmp_path / "data.jsonl"
    lines.write_bytes(b"".join(b'{"id": "q%d"}\n' % i for i in range(30)))
    wdsctl("index", lines, "--key", "id")
    assert complete("get", lines, "q2", light={"numpy"}) == ["q2", *(f"q{i}" for i in range(20, 30))]


def test_completion_reads_catalog_of_catalog_option(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    wdsctl("index", shards, "--catalog", elsewhere)
    wdsctl("split", shards, "train=8,val=1", "--catalog", elsewhere)
    assert complete("inspect", "--catalog", elsewhere, shards, "--split", "v") == ["val"]


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_completion_is_empty_for_unknown_dataset(tmp_path: Path, folder: str) -> None:
    assert complete("ls", tmp_path / folder, "--split", "") == []


def test_bash_completion_script_completes_splits(root: Path, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "wdsctl"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m wdsctl "$@"\n')
    tool.chmod(0o755)
    program = f"""
eval "$(_WDSCTL_COMPLETE=source_bash wdsctl)"
COMP_WORDS=(wdsctl ls {shlex.quote(str(root))} --split tr) COMP_CWORD=4
$(complete -p wdsctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') wdsctl tr --split
echo "${{COMPREPLY[@]}}"
"""
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["train", "trial"], done.stderr


HOSTILE = [
    "k1$(touch x)",
    "k2`touch x`",
    "k3;touch x",
    "k4|touch x",
    "k5&touch x",
    "k6>x",
    "k7'x",
    'k8"$(touch x)',
    "k9\\$(touch x)",
    "k(e:'touch x':)",
    "k*",
    "k~",
    "k{a,b}",
    "k!x",
    "k#x",
    "k x",
    "k\nx",
    "k\tx",
    "k\x1b[2J",
    "k\u202ex",
    "--output=x",
    "=k",
    "~k",
]


@pytest.fixture
def hostile(tmp_path: Path, wdsctl: Wdsctl) -> Path:
    a_tar(tmp_path / "hostile" / "a.tar", {f"{key}.txt": b"x" for key in [*HOSTILE, "kept/1-a_b+c@d%e,f=g:h"]})
    wdsctl("index", tmp_path / "hostile")
    return tmp_path / "hostile"


def test_completion_omits_names_with_shell_metacharacters(hostile: Path) -> None:
    assert complete("get", hostile, "") == ["kept/1-a_b+c@d%e,f=g:h"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_run_no_offered_name(hostile: Path, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "bin" / "wdsctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wdsctl "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(home)}
    script = subprocess.run(
        [str(program)],
        env=environment | {"_WDSCTL_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    line = f"wdsctl get {hostile} k"
    (home / "script").write_text(script)
    code = {
        "bash": f"source ~/script; COMP_WORDS=({line}); COMP_CWORD=3; _wdsctl_completion wdsctl; "
        'printf "%s\\n" "${COMPREPLY[@]}"',
        "zsh": 'compdef() { :; }; _arguments() { print -rl -- "$@"; }; source ~/script; '
        f"words=({line}); CURRENT=4; _wdsctl_completion",
        "fish": f"source ~/script; complete -C '{line}'",
    }[shell]
    done = subprocess.run(
        [shell, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=home
    )
    assert "kept/1-a_b+c@d%e,f=g" in done.stdout, done.stderr
    assert "touch" not in done.stdout
    assert not (home / "x").exists()
