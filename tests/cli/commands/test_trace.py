from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.cli.conftest import Wdsctl
from wdsctl.core.index.index import index
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.trace import SourceFacts, TraceWriter


@pytest.fixture
def cats(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "cats", 2)
    index(root)
    return root


@pytest.fixture
def traces(tmp_path: Path, cats: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Traces of one rank: three steps of two samples."""
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, cats)
    folder = tmp_path / "traces"
    writer = TraceWriter(str(folder), 0, 1, [SourceFacts(0, cats, "", 1, "")], run={})
    for number in range(3):
        writer.add(number, [(0, 0, 1 << 28 | number), (0, 0, 2 << 28 | number)])
    writer.close()
    return folder


def test_trace_step_prints_json_document_with_all_fields(wdsctl: Wdsctl, traces: Path, cats: str) -> None:
    result = wdsctl("trace", traces, "--step", 1, "--json")
    document = result.document

    assert (result.code, document["schema"], document["command"]) == (0, 1, "trace")
    (batch,) = document["batches"]
    assert (batch["step"], batch["number"], batch["rank"], batch["world"], batch["pass_number"]) == (1, 1, 0, 1, 0)
    assert [sample["restore_key"] for sample in batch["samples"]] == [[0, 0, 1 << 28 | 1], [0, 0, 2 << 28 | 1]]
    sample = batch["samples"][1]
    assert (sample["dataset"], sample["key"], sample["shard"]) == (cats, "000006", "shard-001.tar")
    assert [part["name"] for part in sample["parts"]] == ["jpg", "txt"]
    assert set(document) == {
        "schema",
        "command",
        "folder",
        "runs",
        "sources",
        "batches",
        "seen",
        "counts",
        "batches_counted",
        "out",
        "written",
        "findings",
    }


@pytest.mark.parametrize("options", [["--step", 0], ["--batch", 2], ["--key", "000001"], ["--counts"], []])
def test_trace_queries_print_lines(wdsctl: Wdsctl, traces: Path, options: list[object]) -> None:
    result = wdsctl("trace", traces, *options)
    assert (result.code, result.stderr) == (0, "")
    assert "cats" in result.stdout


def test_trace_exits_with_3_for_unknown_step(wdsctl: Wdsctl, traces: Path) -> None:
    result = wdsctl("trace", traces, "--step", 3)
    assert (result.code, result.stdout) == (3, "")
    assert result.stderr.startswith("error[WDS542]: step 3 is not in the trace\n")


def test_trace_exits_with_3_for_folder_without_traces(wdsctl: Wdsctl, tmp_path: Path) -> None:
    assert wdsctl("trace", tmp_path, "--json").document["error"]["code"] == "WDS540"
    assert wdsctl("trace", tmp_path / "nowhere").code == 3


def test_trace_exits_with_5_for_missing_dataset(wdsctl: Wdsctl, traces: Path, cats: str) -> None:
    shutil.move(cats, f"{cats}-moved")
    result = wdsctl("trace", traces, "--step", 1)
    assert result.code == 5
    assert "WDS543" in result.stdout
    assert f"--root {cats}=NEW" in result.stdout
    assert wdsctl("trace", traces, "--step", 1, "--root", f"{cats}={cats}-moved").code == 0


def test_trace_out_overwrites_changed_files_only_with_yes(wdsctl: Wdsctl, traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert wdsctl("trace", traces, "--batch", 0, "--out", out).stdout.endswith("out\n")
    assert (out / "000-000000.jpg").read_bytes() == b"0 jpg .."
    (out / "000-000000.jpg").write_bytes(b"mine")

    result = wdsctl("trace", traces, "--batch", 0, "--out", out)
    assert result.code == 2
    assert "--yes" in result.stderr
    assert (out / "000-000000.jpg").read_bytes() == b"mine"

    assert wdsctl("trace", traces, "--batch", 0, "--out", out, "--yes").code == 0
    assert (out / "000-000000.jpg").read_bytes() == b"0 jpg .."


def test_trace_step_and_counts_exclude_each_other(wdsctl: Wdsctl, traces: Path) -> None:
    result = wdsctl("trace", traces, "--step", 1, "--counts")
    assert result.code == 2
    assert "--step and --counts exclude each other" in result.stderr
