from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core.job_states import a_pass_state, a_rank_state, job
from wdsctl.core.checkpoint.files import find_states, read_states
from wdsctl.core.errors import InputError
from wdsctl.core.text import natural_sort_key


def a_json(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def get_error(path: Path, key: str = "") -> InputError:
    with pytest.raises(InputError) as raised:
        find_states([str(path)], key)
    assert raised.value.hint
    return raised.value


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (a_rank_state(), [""]),
        (job(2), ["0", "1"]),
        ({"dataloader_state_dict": a_rank_state(), "step": 3}, ["dataloader_state_dict"]),
        ({"loops": {"fit_loop": {"combined_loader": [a_rank_state()]}}}, ["loops.fit_loop.combined_loader.0"]),
        ({"val": a_pass_state(), "train": a_rank_state()}, ["val", "train"]),
    ],
)
def test_state_is_found_at_any_depth(value: Any, keys: list[str], tmp_path: Path) -> None:
    torch.save(value, tmp_path / "state.pt")
    for path in (a_json(tmp_path / "state.json", value), str(tmp_path / "state.pt")):
        assert [found_states.key for found_states in read_states(path)] == keys


def test_truncated_state_is_found(tmp_path: Path) -> None:
    state = a_rank_state()
    del state["cursors"], state["lanes"]

    (found_states,) = read_states(a_json(tmp_path / "state.json", {"loader": state}))

    assert found_states.state == state


def test_key_selects_one_of_several_states(tmp_path: Path) -> None:
    path = a_json(tmp_path / "both.json", {"train": {"loader": a_rank_state()}, "val": {"loader": a_pass_state()}})

    assert [found_states.key for found_states in read_states(path, "val")] == ["val.loader"]
    assert "the file has no state under the key 'test'" in get_error(Path(path), "test").message
    error = get_error(tmp_path, "test")
    assert "none of the 1 files has a state under the key 'test'" in error.message
    assert error.hint == "omit --key: `wdsctl checkpoint info FILES` lists the keys of states"


def test_self_referencing_value_is_read(tmp_path: Path) -> None:
    value: dict[str, Any] = {"state": a_rank_state()}
    value["again"] = [value]
    torch.save(value, tmp_path / "round.pt")

    assert len(read_states(str(tmp_path / "round.pt"))) == 1


def test_folder_is_read_in_natural_order_and_skips_other_files(tmp_path: Path) -> None:
    for rank, state in enumerate(job(12, lanes=12, drawn=24)):
        a_json(tmp_path / f"loader{rank}.json", state)
    a_json(tmp_path / "config.json", {"layers": 3})
    torch.save({"model": torch.nn.Linear(1, 1)}, tmp_path / "model.pt")
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "deeper.json").mkdir()

    found_states, skipped = find_states([str(tmp_path)])

    assert [each.state["rank"] for each in found_states] == list(range(12))
    assert [Path(each.path).name for each in skipped] == ["config.json", "model.pt"]
    assert "torch.nn.modules.linear.Linear" in skipped[1].why


def test_file_without_state_is_refused_by_name(tmp_path: Path) -> None:
    error = get_error(Path(a_json(tmp_path / "config.json", {"layers": 3})))

    assert (error.code, error.exit_code, error.where) == ("WDS522", 3, str(tmp_path / "config.json"))


@pytest.mark.parametrize("files", [0, 2])
def test_folder_without_state_is_refused(files: int, tmp_path: Path) -> None:
    for i in range(files):
        a_json(tmp_path / f"{i}.json", {})

    assert get_error(tmp_path).code == "WDS522"


def test_missing_file_is_input_error(tmp_path: Path) -> None:
    assert get_error(tmp_path / "nowhere.json").code == "WDS002"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps(a_rank_state()), "a bare pickle"),
        (json.dumps(a_rank_state()).encode()[:-40], "damaged JSON"),
        (b"\0\1\2\3", "neither JSON nor a torch.save file"),
        (b"", "neither JSON nor a torch.save file"),
        (b"[" * 100_000, "damaged JSON"),
    ],
)
def test_unreadable_file_error_names_its_format(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(data)

    error = get_error(tmp_path / "state.json")

    assert error.code == "WDS521"
    assert words in error.message


@given(st.lists(st.text(alphabet="ab0123._", max_size=8)))
def test_natural_sort_key_orders_any_names(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural_sort_key)) == sorted(names)


def test_natural_sort_key_orders_numbers_by_value() -> None:
    assert sorted(["r10.pt", "r9.pt", "r1.pt"], key=natural_sort_key) == ["r1.pt", "r9.pt", "r10.pt"]
    assert min("9" * 5000, "1" + "0" * 5000, key=natural_sort_key) == "9" * 5000  # too long for int()


def test_checkpoint_root_hint_names_folder_with_states(tmp_path: Path) -> None:
    for name in ("iter_0000090", "iter_0000100"):
        folder = tmp_path / "energon" / name
        folder.mkdir(parents=True)
        torch.save({"dataloader_state_dict": job(1)[0]}, folder / "train_dataloader_dprank000.pt")

    with pytest.raises(InputError, match="found no state") as raised:
        find_states([str(tmp_path)])

    assert raised.value.hint == f"pass the folder of one checkpoint: {folder}"
