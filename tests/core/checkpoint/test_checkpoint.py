from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.core.job_states import a_pass_state, a_rank_state, job
from wdsctl.core.checkpoint.checkpoint import diff_checkpoints, inspect_checkpoint, redistribute_checkpoint
from wdsctl.core.checkpoint.files import find_states
from wdsctl.core.checkpoint.state import merge_states
from wdsctl.core.errors import StateMismatch, UsageError


def a_checkpoint(folder: Path, states: list[Any], name: str = "train_dataloader_dprank{:03}.pt") -> str:
    """One file per rank, as Megatron writes them."""
    folder.mkdir(exist_ok=True)
    for rank, state in enumerate(states):
        torch.save({"dataloader_state_dict": state, "iteration": torch.tensor(3)}, folder / name.format(rank))
    return str(folder)


@pytest.fixture
def ckpt(tmp_path: Path) -> str:
    return a_checkpoint(tmp_path / "ckpt", job(4))


def read_json(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_complete_checkpoint_has_no_problem(ckpt: str) -> None:
    report = inspect_checkpoint([ckpt])

    assert [line.facts.rank for line in report.states if line.facts] == [0, 1, 2, 3]
    assert (report.problem, report.missing, report.alike) == ("", (), (1, 2, 4, 8))
    assert report.job is not None
    assert report.job.draws == sum(160 + lane for lane in range(8))


def test_incomplete_checkpoint_names_missing_ranks(ckpt: str) -> None:
    report = inspect_checkpoint([f"{ckpt}/train_dataloader_dprank00{rank}.pt" for rank in (3, 1)])

    assert report.missing == (0, 2)
    assert "ranks [0, 2] are missing: the job had 4" in report.problem
    assert report.job is None


def test_damaged_state_is_reported_for_its_file(tmp_path: Path) -> None:
    states = job(2)
    states[1]["batches_drawn"] = "40"
    report = inspect_checkpoint([a_checkpoint(tmp_path / "ckpt", states)])

    assert [bool(line.problem) for line in report.states] == [False, True]
    assert "'batches_drawn' is '40'" in report.problem
    assert report.job is None


def test_single_global_file_is_one_checkpoint(tmp_path: Path) -> None:
    torch.save(job(4), tmp_path / "global.pt")

    assert inspect_checkpoint([str(tmp_path / "global.pt")]).problem == ""


def test_file_with_states_of_two_loaders_requires_key(tmp_path: Path) -> None:
    path = str(tmp_path / "last.ckpt")
    torch.save({"train": job(2), "val": [a_pass_state(rank, 2) for rank in range(2)]}, path)

    assert "under the keys 'train' and 'val'" in inspect_checkpoint([path]).problem
    assert inspect_checkpoint([path], key="val").problem == ""
    with pytest.raises(UsageError, match="several loaders") as raised:
        redistribute_checkpoint([path], str(tmp_path / "out.json"))
    assert "--key" in raised.value.hint
    redistribute_checkpoint([path], str(tmp_path / "out.json"), key="train")
    assert read_json(str(tmp_path / "out.json")) == merge_states(job(2))


def test_redistribute_without_ranks_writes_merged_state(ckpt: str, tmp_path: Path) -> None:
    out = str(tmp_path / "new" / "state.json")

    report = redistribute_checkpoint([ckpt], out)

    assert report.files == (out,)
    assert read_json(out) == merge_states(job(4))
    assert inspect_checkpoint([out]).problem == ""


def test_redistribute_into_folder_writes_state_json(ckpt: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()

    assert redistribute_checkpoint([ckpt], str(tmp_path / "new")).files == (str(tmp_path / "new" / "state.json"),)


@pytest.mark.parametrize(("ranks", "splits"), [(2, 8), (6, 24), (8, 8), (12, 24)])
def test_redistribute_keeps_file_names_for_new_ranks(ranks: int, splits: int, ckpt: str, tmp_path: Path) -> None:
    report = redistribute_checkpoint([ckpt], str(tmp_path / "new"), ranks=ranks)

    assert report.splits_into == splits
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        f"train_dataloader_dprank{rank:03}.pt" for rank in range(ranks)
    ]
    expected = {"dataloader_state_dict": merge_states(job(4))}
    assert all(torch.load(name, weights_only=True) == expected for name in report.files)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("{}.pt", "5.pt"),
        ("r{:02}_of_64.pt", "r05_of_64.pt"),
        ("a{{}}{}.pth", "a{}5.pth"),
        ("a{}.bin", "a5.bin"),
        ("only.pt", "rank005.pt"),
        ("step100.pt", "rank005.pt"),
        ("rank0.pt", "rank5.pt"),
    ],
)
def test_output_names_follow_pattern_of_input_names(name: str, expected: str, tmp_path: Path) -> None:
    states = job(4) if "{" in name else job(1)
    folder = a_checkpoint(tmp_path / "ckpt", states, name)

    assert Path(redistribute_checkpoint([folder], str(tmp_path / "new"), ranks=6).files[5]).name == expected


def test_output_pattern_with_rank_is_followed(ckpt: str, tmp_path: Path) -> None:
    report = redistribute_checkpoint([ckpt], str(tmp_path / "new" / "loader-{rank:02}.json"), ranks=2)

    assert [Path(name).name for name in report.files] == ["loader-00.json", "loader-01.json"]


@pytest.mark.parametrize("pattern", ["{rnk}.j", "{rank:zz}.j", "{rank}{other}.j", "{rank.x}.j", "{rank:.0s}.j"])
def test_invalid_output_pattern_is_refused(pattern: str, ckpt: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pattern"):
        redistribute_checkpoint([ckpt], str(tmp_path / pattern), ranks=2)


def test_existing_files_are_overwritten_only_with_force(ckpt: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    existing = tmp_path / "new" / "train_dataloader_dprank001.pt"
    existing.write_text("mine")

    with pytest.raises(UsageError, match="1 of 2 output files exist"):
        redistribute_checkpoint([ckpt], str(tmp_path / "new"), ranks=2)

    assert [path.name for path in (tmp_path / "new").iterdir()] == [existing.name]
    assert existing.read_text() == "mine"
    redistribute_checkpoint([ckpt], str(tmp_path / "new"), ranks=2, force=True)
    assert torch.load(existing, weights_only=True) == {"dataloader_state_dict": merge_states(job(4))}


def test_dry_run_writes_nothing(ckpt: str, tmp_path: Path) -> None:
    report = redistribute_checkpoint([ckpt], str(tmp_path / "new"), ranks=2, dry_run=True)

    assert (len(report.files), report.dry_run) == (2, True)
    assert not (tmp_path / "new").exists()


def test_states_of_different_steps_are_not_written(tmp_path: Path) -> None:
    states = [*job(4)[:3], a_rank_state(3, 4, drawn=44)]
    folder = a_checkpoint(tmp_path / "ckpt", states)

    with pytest.raises(StateMismatch, match="different steps"):
        redistribute_checkpoint([folder], str(tmp_path / "out.json"))

    assert not (tmp_path / "out.json").exists()


def test_merged_state_next_to_its_rank_files_is_one_checkpoint(ckpt: str, tmp_path: Path) -> None:
    redistribute_checkpoint([ckpt], f"{ckpt}/state.json")

    redistribute_checkpoint([ckpt], str(tmp_path / "again.json"))

    assert read_json(str(tmp_path / "again.json")) == merge_states(job(4))


def test_rank_files_and_their_merged_state_do_not_differ(ckpt: str, tmp_path: Path) -> None:
    out = str(tmp_path / "state.json")
    redistribute_checkpoint([ckpt], out)

    assert diff_checkpoints(ckpt, out).is_same
    assert diff_checkpoints(ckpt, out).tier == ""


def a_megatron_checkpoint(folder: Path, states: list[Any]) -> Path:
    """The folder that Megatron-Bridge writes for one iteration: one file per rank, which holds only the state."""
    folder.mkdir(parents=True)
    for rank, state in enumerate(states):
        torch.save({"dataloader_state_dict": state}, folder / f"train_dataloader_dprank{rank:03d}.pt")
    return folder


@pytest.mark.parametrize(("world", "ranks"), [(4, 6), (4, 2), (1, 8), (8, 1), (4, 4)])
def test_in_place_leaves_exactly_the_new_ranks(world: int, ranks: int, tmp_path: Path) -> None:
    folder = a_megatron_checkpoint(tmp_path / "energon" / "iter_0000100", job(world))
    (folder / "notes.txt").write_text("mine")

    report = redistribute_checkpoint([str(folder)], ranks=ranks, in_place=True)

    names = [f"train_dataloader_dprank{rank:03d}.pt" for rank in range(ranks)]
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", *names]
    assert [Path(name).name for name in report.files] == names
    assert len(report.removed) == max(0, world - ranks)
    for name in names:
        assert torch.load(folder / name, weights_only=True) == {"dataloader_state_dict": merge_states(job(world))}


def test_in_place_can_be_repeated(tmp_path: Path) -> None:
    folder = a_megatron_checkpoint(tmp_path / "iter", job(4))

    for ranks in (6, 3, 4):
        redistribute_checkpoint([str(folder)], ranks=ranks, in_place=True)
        assert len(list(folder.iterdir())) == ranks
    assert inspect_checkpoint([str(folder)]).problem == ""


@pytest.mark.parametrize(("replaced", "removed"), [(0, 0), (1, 0), (4, 0), (5, 0), (5, 2), (5, 3)])
def test_killed_in_place_redistribution_is_completed(replaced: int, removed: int, tmp_path: Path) -> None:
    folder = a_megatron_checkpoint(tmp_path / "iter", job(8))
    names = [f"train_dataloader_dprank{rank:03d}.pt" for rank in range(8)]
    for name in names[:replaced]:  # files are replaced in the order of ranks, then removed
        torch.save({"dataloader_state_dict": merge_states(job(8))}, folder / name)
    for name in names[5 : 5 + removed]:
        (folder / name).unlink()

    redistribute_checkpoint([str(folder)], ranks=5, in_place=True)

    assert sorted(path.name for path in folder.iterdir()) == names[:5]
    assert [each.state for each in find_states([str(folder)])[0]] == [merge_states(job(8))] * 5


def test_in_place_refuses_files_with_other_values(ckpt: str) -> None:
    before = {path.name: path.read_bytes() for path in Path(ckpt).iterdir()}

    with pytest.raises(UsageError, match="other values"):
        redistribute_checkpoint([ckpt], ranks=2, in_place=True)

    assert {path.name: path.read_bytes() for path in Path(ckpt).iterdir()} == before


def test_in_place_keeps_values_that_all_files_share(tmp_path: Path) -> None:
    folder = tmp_path / "dataloader"
    folder.mkdir()
    for rank, state in enumerate(job(2)):  # as torchdata's StatefulDataLoader saves an iterable dataset
        saved = {"_num_yielded": 7, "fetcher_state": {"ended": False, "items": [1, {"dataset_state": state}]}}
        torch.save(saved, folder / f"dataloader_dp_rank_{rank}.pt")

    redistribute_checkpoint([str(folder)], ranks=3, in_place=True)

    merged = {"ended": False, "items": [1, {"dataset_state": merge_states(job(2))}]}
    for rank in range(3):
        saved = torch.load(folder / f"dataloader_dp_rank_{rank}.pt", weights_only=True)
        assert saved == {"_num_yielded": 7, "fetcher_state": merged}


def test_in_place_refuses_json_in_file_named_pt(tmp_path: Path) -> None:
    path = tmp_path / "rank0.pt"
    path.write_text(json.dumps(job(1)[0]))

    with pytest.raises(UsageError, match="the file is JSON"):
        redistribute_checkpoint([str(path)], ranks=2, in_place=True)


@pytest.mark.parametrize("options", [{"ranks": 0}, {"ranks": 2, "output": "new"}])
def test_in_place_needs_ranks_and_no_output(options: Any, tmp_path: Path) -> None:
    folder = a_megatron_checkpoint(tmp_path / "iter", job(4))

    with pytest.raises(UsageError, match="needs a number of ranks"):
        redistribute_checkpoint([str(folder)], in_place=True, **options)


def test_merged_state_next_to_state_of_other_step_is_refused(tmp_path: Path) -> None:
    folder = a_megatron_checkpoint(tmp_path / "iter", [merge_states(job(4)), *job(4, drawn=48)[1:]])

    with pytest.raises(UsageError, match="of another step or job"):
        redistribute_checkpoint([str(folder)], ranks=2, in_place=True)


def test_diff_reports_most_severe_tier(ckpt: str, tmp_path: Path) -> None:
    def write_changed_plan(field: str, value: Any) -> str:
        states = job(4, drawn=48)
        for state in states:
            state["plan"][field] = value
        return a_checkpoint(tmp_path / field, states)

    report = diff_checkpoints(ckpt, write_changed_plan("recipe", "0" * 32))
    assert (report.tier, report.steps, len(report.lanes)) == ("recipe", 8, 8)
    assert diff_checkpoints(ckpt, write_changed_plan("order", {"seed": 1})).tier == "order"
    assert diff_checkpoints(ckpt, a_checkpoint(tmp_path / "other", job(2))).tier == "place"
