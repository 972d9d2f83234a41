from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl
from tests.core.job_states import job


@pytest.fixture
def ckpt(tmp_path: Path) -> Path:
    """The states of four ranks, one JSON file each."""
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for rank, state in enumerate(job(4)):
        (folder / f"loader_rank{rank}.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def test_checkpoint_info_prints_rank_counts_that_can_resume(wdsctl: Wdsctl, ckpt: Path) -> None:
    result = wdsctl("checkpoint", "info", ckpt)

    assert (result.code, result.stderr) == (0, "")
    assert "any number of ranks can resume; with the same global batches: 1, 2, 4, 8" in result.stdout


def test_checkpoint_info_fails_and_names_missing_ranks(wdsctl: Wdsctl, ckpt: Path) -> None:
    (ckpt / "loader_rank2.json").unlink()

    result = wdsctl("checkpoint", "info", ckpt)

    assert result.code == 1
    assert result.stdout.endswith("ranks [2] are missing: the job had 4\n")


@pytest.mark.parametrize("words", [["checkpoint", "info", "--json"], ["--json", "checkpoint", "info"]])
def test_checkpoint_info_prints_json_document(wdsctl: Wdsctl, ckpt: Path, words: list[str]) -> None:
    document = wdsctl(*words, ckpt / "loader_rank1.json", ckpt / "loader_rank3.json").document

    assert (document["schema"], document["command"]) == (1, "checkpoint info")
    assert document["missing"] == [0, 2]
    assert [state["facts"]["rank"] for state in document["states"]] == [1, 3]


def test_checkpoint_info_exits_with_3_for_file_without_state(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    result = wdsctl("checkpoint", "info", tmp_path / "config.json")

    assert result.code == 3
    assert result.stderr.startswith("error[WDS522]: found no state of a wdsctl loader")


def test_checkpoint_redistribute_writes_states_for_other_ranks(wdsctl: Wdsctl, ckpt: Path, tmp_path: Path) -> None:
    result = wdsctl("checkpoint", "redistribute", ckpt, tmp_path / "new", "--ranks", "6")

    assert result.code == 0
    assert "on 6 ranks, 8 lanes are split into 24" in result.stdout
    assert wdsctl("checkpoint", "info", tmp_path / "new" / "loader_rank5.json").code == 0


def test_checkpoint_redistribute_overwrites_only_with_force_or_yes(wdsctl: Wdsctl, ckpt: Path, tmp_path: Path) -> None:
    words = ["checkpoint", "redistribute", *sorted(ckpt.iterdir()), tmp_path / "state.json"]
    assert wdsctl(*words).code == 0

    refused = wdsctl(*words)

    assert refused.code == 2
    assert "the output file exists" in refused.stderr
    assert wdsctl(*words, "--force").code == wdsctl("--yes", *words).code == 0


def test_checkpoint_redistribute_refuses_states_of_different_steps(wdsctl: Wdsctl, ckpt: Path, tmp_path: Path) -> None:
    (ckpt / "loader_rank3.json").write_text(json.dumps(job(4, drawn=44)[3]), encoding="utf-8")

    result = wdsctl("checkpoint", "redistribute", ckpt, tmp_path / "state.json")

    assert result.code == 1
    assert result.stderr.startswith("error[WDS502]: the ranks were saved at different steps")


def test_checkpoint_diff_exits_with_1_on_differences(wdsctl: Wdsctl, ckpt: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.json"
    later.write_text(json.dumps(job(4, drawn=44)), encoding="utf-8")

    result = wdsctl("checkpoint", "diff", ckpt, later)

    assert result.code == 1
    assert result.stdout.startswith("steps: the second state is 4 steps ahead\n")
    assert wdsctl("checkpoint", "diff", ckpt, ckpt).stdout == "the states are identical\n"
    assert wdsctl("checkpoint", "diff", ckpt, ckpt, "--json").document["is_same"] is True


def test_checkpoint_without_subcommand_prints_help_and_exits_with_2(wdsctl: Wdsctl) -> None:
    result = wdsctl("checkpoint")

    assert (result.code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: wdsctl checkpoint")
