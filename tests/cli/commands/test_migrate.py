"""`wdsctl migrate` on the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.cli.conftest import Stream, Wdsctl


def test_migrate_lists_and_rewrites_uses(wdsctl: Wdsctl, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from megatron.energon import get_loader\n")

    listed = wdsctl("migrate", script)
    assert (listed.code, script.read_text()) == (0, "from megatron.energon import get_loader\n")
    assert "train.py:1: from megatron.energon import -> from wdsctl.loader.energon import" in listed.stdout
    assert "--write rewrites 1 file" in listed.stdout
    diff = wdsctl("migrate", script, "--diff")
    assert "+from wdsctl.loader.energon import get_loader\n" in diff.stdout
    assert "rewrote 1 file" in wdsctl("migrate", script, "--write").stdout
    assert script.read_text() == "from wdsctl.loader.energon import get_loader\n"
    assert wdsctl("migrate", tmp_path).stdout == "no use of Energon in 1 file\n"


def test_migrate_exits_with_1_for_manual_changes(wdsctl: Wdsctl, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import megatron.energon as e\ne.BlendDataset(a)\n")

    result = wdsctl("migrate", script, "--json")

    assert result.code == 1
    assert [(use["line"], use["kind"]) for use in result.document["uses"]] == [(1, "rewrite"), (2, "hand")]
    assert "train.py:2: by hand: BlendDataset: write a blend file" in wdsctl("migrate", script).stdout


def test_migrate_lists_hand_work_first_and_repeated_notes_once(wdsctl: Wdsctl, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    calls = "e.get_train_dataset(p, handler=h)\n" * 3
    script.write_text(f"import megatron.energon as e\n{calls}e.BlendDataset(a)\n")

    lines = wdsctl("migrate", script).stdout.splitlines()

    assert ":5: by hand: BlendDataset" in lines[0]
    assert [line for line in lines if "handler=" in line] == [
        line for line in lines if line.endswith("in 2 more lines)")
    ]
    assert len(lines) == 4


def test_migrate_diff_and_write_exclude_each_other(wdsctl: Wdsctl, tmp_path: Path) -> None:
    assert wdsctl("migrate", tmp_path, "--diff", "--write").code == 2


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_migrate_diff_is_applied_by_patch(wdsctl: Wdsctl, tmp_path: Path) -> None:
    text = "import megatron.energon as e\nif e:\n\tx = 'a\tb'  # \x0c\r\n\ty = e  # \u2028 end"
    for name in ("patched.py", "written.py"):
        (tmp_path / name).write_bytes(text.encode())
    shown = wdsctl("migrate", tmp_path / "patched.py", "--diff", stdout=Stream(is_terminal=True)).stdout
    assert " \tx = 'a\tb'  # \\x0c\\r\n" in shown  # escaped on a terminal
    wdsctl("migrate", tmp_path / "written.py", "--write")

    words = [sys.executable, "-m", "wdsctl", "migrate", "patched.py", "--diff"]
    diff = children.run(words, cwd=tmp_path, check=True, capture_output=True).stdout
    subprocess.run(["patch", "-p0", "--binary"], input=diff, cwd=tmp_path, check=True, capture_output=True)

    assert (tmp_path / "patched.py").read_bytes() == (tmp_path / "written.py").read_bytes()
