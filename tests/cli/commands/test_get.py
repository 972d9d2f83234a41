from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import a_dataset, an_image
from tests.cli.conftest import Stream, Wdsctl
from wdsctl.core.index.index import index

MEMBERS = {
    "1.jpg": an_image("JPEG"),
    "1.txt": "a cät\n".encode(),
    "2.txt": b"\x1b[2J",
    "$(x);'.txt": b"odd",
}


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "d", {"a.tar": MEMBERS, "b.tar": {"2.txt": b"two"}})
    index(root)
    return root


def test_get_writes_raw_bytes_to_pipe(root: str) -> None:
    for words in (["1", "--part", "jpg"], ["1.jpg"], ["1.jpg", "-o", "-"], ["1.jpg", "--no-color"]):
        done = children.run(
            [sys.executable, "-m", "wdsctl", "get", root, *words], capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, MEMBERS["1.jpg"], b"")


def test_get_json_document_locates_parts(wdsctl: Wdsctl, root: str) -> None:
    document = wdsctl("get", root, "1", "--json").document
    assert (document["command"], document["shard"], document["file"]) == ("get", "a.tar", f"{root}/a.tar")
    part = document["parts"][1]
    with open(document["file"], "rb") as file:
        file.seek(part["offset"])
        assert file.read(part["size_bytes"]) == MEMBERS["1.txt"]


def test_get_writes_parts_to_files(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    assert wdsctl("get", root, "1", "-o", f"{tmp_path}/out/", "-n").stderr.startswith("would write ")
    assert not (tmp_path / "out").exists()
    assert wdsctl("get", root, "1", "-o", f"{tmp_path}/out/").code == 0
    assert (tmp_path / "out" / "1.jpg").read_bytes() == MEMBERS["1.jpg"]
    assert wdsctl("get", root, "1.txt", "-o", tmp_path / "x").stderr == f"wrote {tmp_path}/x (7 B)\n"
    repeated = wdsctl("get", root, "1.txt", "-o", tmp_path / "x")
    assert (repeated.code, "pass --yes to replace it" in repeated.stderr) == (2, True)
    assert wdsctl("get", root, "1.txt", "-o", tmp_path / "x", "--yes", "-q").stderr == ""
    assert wdsctl("get", root, "1", "-o", tmp_path / "y").code == 2  # two parts do not fit one file


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["3"], 3, "error[WDS004]: the dataset has no sample '3'"),
        (["2"], 2, "in a.tar (position 1), b.tar (position 0)"),
        (["1"], 2, "choose a part with --part NAME"),
        (["1", "--part", "png"], 3, "it has jpg, txt"),
        (["' OR '1'='1"], 3, "no sample"),
    ],
)
def test_get_reports_samples_and_parts_it_cannot_return(
    wdsctl: Wdsctl, root: str, words: list[str], code: int, message: str
) -> None:
    result = wdsctl("get", root, *words)
    assert (result.code, message in result.stderr) == (code, True), result.stderr


@pytest.mark.parametrize("words", [["1.jpg"], ["2", "--shard", "a.tar"]])
def test_get_refuses_non_text_on_terminal(wdsctl: Wdsctl, root: str, words: list[str]) -> None:
    result = wdsctl("get", root, *words, stdout=Stream(is_terminal=True))
    assert (result.code, result.stdout, "WDS006" in result.stderr) == (2, "", True)
    assert f"wdsctl inspect {root} --key {words[0][0]}`" in " ".join(result.stderr.split())


def test_get_appends_newline_only_on_terminal(wdsctl: Wdsctl, root: str) -> None:
    words = ("2", "--shard", "b.tar")
    assert wdsctl("get", root, *words, stdout=Stream(is_terminal=True)).stdout == "two\n"
    assert wdsctl("get", root, *words).stdout == "two"
    assert wdsctl("get", root, "1.txt", stdout=Stream(is_terminal=True)).stdout == "a cät\n"


def test_get_handles_closed_pipe(root: str) -> None:
    command = f"{sys.executable} -m wdsctl get {root} 1.jpg; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; ({command}) | true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.strip() in ("0", "141")


def test_get_exits_with_4_for_unwritable_folder(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "ro").mkdir(mode=0o500)
    assert wdsctl("get", root, "1.txt", "-o", tmp_path / "ro" / "x").code == 4


def test_get_accepts_part_after_key(wdsctl: Wdsctl, root: str) -> None:
    assert wdsctl("get", root, "1", "txt").stdout.encode() == MEMBERS["1.txt"]
    result = wdsctl("get", root, "1", "txt", "--part", "txt")
    assert (result.code, "PART and --part exclude each other" in result.stderr) == (2, True)


def test_printed_command_gets_part_of_key_with_dash(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "long", {"a.tar": {"-x.txt": b"many words " * 1000}})
    index(root)
    printed = re.search(r"`wdsctl (get .*)`", wdsctl("inspect", root, "--key", "-x").stdout)
    assert printed
    assert wdsctl(*shlex.split(printed[1])).stdout == "many words " * 1000


def test_get_dry_run_without_output_names_byte_range(wdsctl: Wdsctl, root: str) -> None:
    result = wdsctl("get", root, "1", "txt", "-n")
    offset = wdsctl("get", root, "1", "txt", "-n", "--json").document["parts"][0]["offset"]
    assert (result.code, result.stdout) == (0, "")
    assert result.stderr == f"would write part txt to stdout: 7 B at byte {offset:,} of {root}/a.tar\n"


def test_get_keys_writes_parts_in_order_of_list_to_stdout(root: str, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("1\n\n$(x);'\r\n1")
    get = [sys.executable, "-m", "wdsctl", "get", root, "--part", "txt", "--keys"]
    for source, text in ((str(tmp_path / "keys.txt"), None), ("-", b"1\n$(x);'\n1")):
        done = children.run([*get, source], input=text, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "a cät\nodda cät\n".encode(), b"")


def test_get_keys_writes_others_and_names_missing_keys_at_end(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    keys, out = tmp_path / "keys.txt", tmp_path / "out"
    keys.write_text("none\n1\n2\n$(x);'\n")
    result = wdsctl("get", root, "--keys", keys, "-o", f"{out}/")
    assert (result.code, result.stderr.splitlines()) == (
        3,
        [
            f"wrote 3 files of 2 samples to {out}/ ({len(MEMBERS['1.jpg']) + 10} B)",
            "error[WDS004]: 2 of 4 keys failed",
            "    the dataset has no sample 'none'",
            "    2 samples have the key '2': in a.tar (position 1), b.tar (position 0)",
            f"  --> {root}",
            f"  help: list them: `wdsctl ls {root} --samples`",
        ],
    )
    assert sorted(path.name for path in out.iterdir()) == ["$(x);'.txt", "1.jpg", "1.txt"]
    keys.write_text("none\n")
    one = wdsctl("get", root, "--keys", keys, "--part", "txt")
    assert (one.code, "error[WDS004]: the dataset has no sample 'none'\n" in one.stderr) == (3, True)
    again = wdsctl("get", root, "--keys", keys, "-o", f"{out}/", "--yes", "--shard", "b.tar", "--quiet")
    assert (again.code, again.stdout) == (3, "")


def test_get_keys_json_document_locates_each_sample(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"key": "2", "shard": "b.tar"}\n{"key": "2", "shard": "a.tar", "position": 1}\n{"key": "no"}\n')
    result = wdsctl("get", root, "--keys", keys, "--json")
    samples = result.document["samples"]
    assert [(each["key"], each["shard"], each["parts"][0]["output"]) for each in samples] == [
        ("2", "b.tar", None),
        ("2", "a.tar", None),
    ]
    assert (result.code, result.document["error"]["code"]) == (3, "WDS004")
    keys.write_text('{"key": "2", "shard": "b.tar"}\n')
    written = wdsctl("get", root, "--keys", keys, "--json", "-o", f"{tmp_path}/out/").document
    assert written["samples"][0]["parts"][0]["output"] == f"{tmp_path}/out/2.txt"
    assert (tmp_path / "out" / "2.txt").read_bytes() == b"two"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("1", "--keys", "KEYS"), 2, "KEY and --keys exclude each other"),
        ((), 2, "missing argument 'KEY'"),
        (("--keys", "KEYS", "--position", "0"), 2, "--position selects one sample"),
        (("--keys", "KEYS", "-o", "new"), 2, "-o is no folder"),
        (("--keys", "absent.txt"), 3, "absent.txt"),
        (("--keys", "EMPTY"), 3, "the list has no keys"),
    ],
)
def test_get_keys_refuses_options_that_do_not_fit(
    wdsctl: Wdsctl, root: str, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "KEYS").write_text("1\n")
    (tmp_path / "EMPTY").write_text("\n")
    result = wdsctl("get", root, *(str(tmp_path / word) if word.isupper() else word for word in words))
    assert (result.code, message in result.stderr) == (code, True), result.stderr
