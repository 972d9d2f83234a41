"""Splits of named split sets in the loader and in blend files: split_part="SET/NAME"."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests, make_training_loader, save_state_after
from wdsctl.core.errors import InputError
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.loader import get_loader, get_val_dataset

SAMPLES = 100


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "data", SAMPLES)
    split_dataset(root, SplitRequest(rule=SplitRule({}, by="key"), folds=4))
    return root


def keys_of_val(path: str, name: str) -> list[str]:
    loader = get_loader(get_val_dataset(path, split_part=name, batch_size=1, task_encoder=Raw()))
    return [key for batch in loader for key in batch["__key__"]]


def test_validation_splits_of_folds_are_disjoint_and_cover_dataset(dataset: str) -> None:
    folds = [keys_of_val(dataset, f"fold-{i}/val") for i in range(4)]

    assert sorted(key for fold in folds for key in fold) == [f"{i:06}" for i in range(SAMPLES)]
    assert sorted(keys_of_val(dataset, "fold-2/train") + folds[2]) == [f"{i:06}" for i in range(SAMPLES)]


def test_training_on_split_of_set_resumes_exactly(dataset: str) -> None:
    whole = digests(make_training_loader(dataset, split_part="fold-1/train"), 40)
    state = save_state_after(make_training_loader(dataset, split_part="fold-1/train"), 17)
    resumed = make_training_loader(dataset, split_part="fold-1/train")
    resumed.restore_state_rank(state)

    assert digests(resumed, 23) == whole[17:]


def test_blend_file_takes_splits_of_sets(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "blend.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
        "  train:\n    path: data\n    split_part: fold-0/train\n"
        "  val:\n    path: data\n    split_part: fold-0/val\n"
    )
    found = keys_of_val(str(tmp_path / "blend.yaml"), "val")
    trained = {
        key for batch in islice(make_training_loader(str(tmp_path / "blend.yaml")), 60) for key in batch["__key__"]
    }

    assert found == keys_of_val(dataset, "fold-0/val")
    assert trained == set(keys_of_val(dataset, "fold-0/train"))


def test_excluded_samples_are_in_no_split_of_any_set(dataset: str) -> None:
    split_dataset(dataset, SplitRequest(excludes=Excludes(keys=("000003", "000050"), shards=("shard-002.tar",))))
    everything = [key for name in ("train", "fold-0/val", "fold-0/train") for key in keys_of_val(dataset, name)]

    assert len(everything) == 2 * (SAMPLES - 2 - 30)
    assert not {"000003", "000050", "000060"} & set(everything)


def test_unknown_split_of_set_is_reported_with_existing_splits(dataset: str) -> None:
    with pytest.raises(InputError, match="no split 'fold-9/val'; it has train, fold-0/train, fold-0/val"):
        keys_of_val(dataset, "fold-9/val")
