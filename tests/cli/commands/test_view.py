from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.cli.conftest import Wdsctl


@pytest.fixture
def indexed(wdsctl: Wdsctl, shards: Path) -> Path:
    wdsctl("index", shards)
    wdsctl("split", shards, "8,1,1")
    return shards


def test_view_create_and_show_print_summary(wdsctl: Wdsctl, indexed: Path) -> None:
    created = wdsctl("view", "create", indexed, "first", "--where", "position = 0 and ext = 'txt'")
    assert created.code == 0
    lines = created.stdout.splitlines()
    assert lines[0].endswith("shards@first: created")
    assert lines[1:4] == [
        """  defined by  --where "position = 0 and ext = 'txt'\"""",
        "  samples     10 (33.3 %), in 10 shards",
        "  splits      train 8, val 1, test 1",
    ]
    shown = wdsctl("view", "show", indexed, "first").stdout
    assert "first keys  0/0000, 1/0000, 2/0000, 3/0000, 4/0000" in shown


def test_view_list_fits_80_columns(wdsctl: Wdsctl, indexed: Path) -> None:
    assert wdsctl("view", "list", indexed).stdout.endswith("shards: no views\n")
    wdsctl("view", "create", indexed, "some", "--sample", "50%", "--seed", "3")
    lines = wdsctl("view", "list", indexed).stdout.splitlines()
    assert lines[1].startswith("some       15   50 %")
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        ("create", "ROOT", "new", "--split", "val", "--dry-run"),
        ("list", "ROOT"),
        ("show", "ROOT", "first"),
        ("diff", "ROOT", "first", "first"),
        ("refresh", "ROOT"),
        ("delete", "ROOT", "first", "--dry-run"),
    ],
)
def test_view_commands_print_json_documents(wdsctl: Wdsctl, indexed: Path, words: tuple[str, ...]) -> None:
    wdsctl("view", "create", indexed, "first", "--where", "position = 0")
    result = wdsctl("view", *(indexed if word == "ROOT" else word for word in words), "--json")
    assert result.code == 0
    assert (result.document["schema"], result.document["command"]) == (1, f"view {words[0]}")


@pytest.mark.parametrize(("words", "needed"), [(("--seed", 7), "--sample"), (("--unknown", "skip"), "--keys")])
def test_view_create_refuses_options_without_effect(
    wdsctl: Wdsctl, indexed: Path, words: tuple[object, ...], needed: str
) -> None:
    result = wdsctl("view", "create", indexed, "x", "--where", "position = 0", *words)
    assert (result.code, f"{words[0]} has no effect without {needed}" in result.stderr) == (2, True)
    assert wdsctl("view", "list", indexed, "--quiet").stdout == ""


def test_view_create_suggests_column_for_typo(wdsctl: Wdsctl, indexed: Path) -> None:
    result = wdsctl("view", "create", indexed, "x", "--where", "positon = 0")
    assert result.code == 2
    assert result.stderr.splitlines() == [
        "error[WDS332]: no such column: positon",
        "  --> --where",
        "  help: did you mean position?",
    ]


def test_view_diff_exits_with_1_on_difference(wdsctl: Wdsctl, indexed: Path) -> None:
    wdsctl("view", "create", indexed, "a", "--where", "position = 0")
    wdsctl("view", "create", indexed, "b", "--where", "position < 2")
    result = wdsctl("view", "diff", indexed, "a", "b", "--keys", 2)
    assert result.code == 1
    assert result.stdout.splitlines()[1:] == [
        "  both    10 samples",
        "  only a  0 samples",
        "  only b  10 samples: 0/0001, 1/0001, ...",
    ]
    assert wdsctl("view", "diff", indexed, "a").code == 0


def test_view_exports_and_imports_keys_through_pipes(indexed: Path) -> None:
    command = [sys.executable, "-m", "wdsctl", "view"]
    children.run([*command, "create", indexed, "a", "--where", "position = 0"], check=True, capture_output=True)
    out = children.run([*command, "export", indexed, "a"], check=True, capture_output=True).stdout
    assert len(out.splitlines()) == 10
    created = children.run(
        [*command, "create", indexed, "b", "--keys", "-", "--json"], input=out, check=True, capture_output=True
    )
    listed = children.run([*command, "show", indexed, "a", "--json"], check=True, capture_output=True)
    assert json.loads(created.stdout)["hash"] == json.loads(listed.stdout)["hash"]


def test_view_export_to_closed_pipe_exits_quietly(wdsctl: Wdsctl, indexed: Path) -> None:
    wdsctl("view", "create", indexed, "a", "--where", "position >= 0")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "wdsctl", "view", "export", str(indexed), "a", "--format", "jsonl"]
    done = children.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_view_export_to_file_overwrites_only_with_force(wdsctl: Wdsctl, indexed: Path, tmp_path: Path) -> None:
    wdsctl("view", "create", indexed, "a", "--where", "position = 0")
    out = tmp_path / "a.jsonl"
    assert wdsctl("view", "export", indexed, "a", "-o", out, "--json").document["format"] == "jsonl"
    assert json.loads(out.read_text().splitlines()[0])["key"] == "0/0000"
    assert wdsctl("view", "export", indexed, "a", "-o", out).code == 2
    assert wdsctl("view", "export", indexed, "a", "-o", out, "--force").code == 0
    assert wdsctl("view", "export", indexed, "a", "--json").code == 2


def test_view_refresh_and_delete_report_results(wdsctl: Wdsctl, indexed: Path) -> None:
    wdsctl("view", "create", indexed, "a", "--where", "position = 0")
    assert wdsctl("view", "refresh", indexed).stdout.splitlines()[1].split() == ["a", "unchanged", "10", "0", "0"]
    assert "@a: deleted (10 samples" in wdsctl("view", "delete", indexed, "a").stdout
    repeated = wdsctl("view", "delete", indexed, "a")
    assert (repeated.code, repeated.stderr.splitlines()[0]) == (
        3,
        "error[WDS330]: the dataset has no view 'a'; it has none yet",
    )


def test_view_without_subcommand_lists_subcommands(wdsctl: Wdsctl) -> None:
    result = wdsctl("view")
    assert result.code == 2
    assert all(name in result.stderr for name in ("create", "list", "show", "diff", "export", "refresh", "delete"))


@pytest.mark.parametrize(
    "words",
    [
        ("create", "NAMED", "--split", "val", "--replace"),
        ("show", "NAMED"),
        ("diff", "NAMED"),
        ("diff", "NAMED", "other"),
        ("export", "NAMED"),
        ("refresh", "NAMED"),
        ("delete", "NAMED"),
    ],
)
def test_view_commands_accept_dataset_at_view(wdsctl: Wdsctl, indexed: Path, words: tuple[str, ...]) -> None:
    def answer(*named: object) -> tuple[int, str]:
        wdsctl("view", "create", indexed, "first", "--where", "position = 0", "--replace")
        wdsctl("view", "create", indexed, "other", "--where", "position = 1")
        result = wdsctl("view", words[0], *named, *words[2:])
        assert result.stdout, result.stderr
        return result.code, result.stdout.partition("made at")[0]

    assert answer(f"{indexed}@first") == answer(indexed, "first")


def test_view_commands_refuse_missing_or_extra_view_name(wdsctl: Wdsctl, indexed: Path) -> None:
    none, two = wdsctl("view", "show", indexed), wdsctl("view", "delete", f"{indexed}@first", "second")
    assert (none.code, two.code) == (2, 2)
    assert "missing view name" in none.stderr
    assert f"view list {indexed}" in none.stderr
    assert "expected 1 view, found 2: first, second" in two.stderr
    assert "does not exist" in wdsctl("view", "show", f"{indexed}-nowhere@first").stderr
