"""Splits of named sets, as the loader and blend files take them: split_part="SET/NAME"."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests, saved_after, training_of
from wdsctl.core.dataset.split_rules import Excludes, SplitRule
from wdsctl.core.errors import InputError
from wdsctl.core.split.split import SplitRequest, split_dataset
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


def test_each_fold_has_another_part_and_together_they_are_all(dataset: str) -> None:
    folds = [keys_of_val(dataset, f"fold-{i}/val") for i in range(4)]

    assert sorted(key for fold in folds for key in fold) == [f"{i:06}" for i in range(SAMPLES)]
    assert sorted(keys_of_val(dataset, "fold-2/train") + folds[2]) == [f"{i:06}" for i in range(SAMPLES)]


def test_a_training_on_a_set_goes_on_exactly_where_it_was(dataset: str) -> None:
    whole = digests(training_of(dataset, split_part="fold-1/train"), 40)
    state = saved_after(training_of(dataset, split_part="fold-1/train"), 17)
    resumed = training_of(dataset, split_part="fold-1/train")
    resumed.restore_state_rank(state)

    assert digests(resumed, 23) == whole[17:]


def test_a_blend_file_names_splits_of_sets(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "blend.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
        "  train:\n    path: data\n    split_part: fold-0/train\n"
        "  val:\n    path: data\n    split_part: fold-0/val\n"
    )
    found = keys_of_val(str(tmp_path / "blend.yaml"), "val")
    trained = {key for batch in islice(training_of(str(tmp_path / "blend.yaml")), 60) for key in batch["__key__"]}

    assert found == keys_of_val(dataset, "fold-0/val")
    assert trained == set(keys_of_val(dataset, "fold-0/train"))


def test_what_is_excluded_comes_in_no_split(dataset: str) -> None:
    split_dataset(dataset, SplitRequest(excludes=Excludes(keys=("000003", "000050"), shards=("shard-002.tar",))))
    everything = [key for name in ("train", "fold-0/val", "fold-0/train") for key in keys_of_val(dataset, name)]

    assert len(everything) == 2 * (SAMPLES - 2 - 30)
    assert not {"000003", "000050", "000060"} & set(everything)


def test_a_split_that_a_set_does_not_have_is_named_with_those_that_are(dataset: str) -> None:
    with pytest.raises(InputError, match="no split 'fold-9/val'; it has train, fold-0/train, fold-0/val"):
        keys_of_val(dataset, "fold-9/val")
