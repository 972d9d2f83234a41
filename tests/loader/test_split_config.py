"""`split_config`: a file in the format of Energon's split.yaml defines the splits instead of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.energon import CRUDE, an_energon_dataset
from tests.loader.datasets import Raw, a_dataset, a_shard, numbered
from tests.loader.running import digests, make_training_loader, save_state_after
from wdsctl.core.errors import DatasetError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view
from wdsctl.loader import get_loader, get_train_dataset, get_val_dataset

FILE = """split_parts:
  train: ["shard-{000..002}.tar"]
  val:
  - shard-003.tar
exclude:
- shard-001.tar
- shard-000.tar/{000003..000005}
"""
TRAIN = [*range(3), *range(6, 10), *range(20, 30)]


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "data", 40, shard_samples=10, split={"train": 1})


def write_split_config(root: str, text: str = FILE, name: str = ".wdsctl/mine.yaml") -> None:
    path = Path(root) / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def keys_of(path: Any, split: str = "train", **options: Any) -> list[int]:
    loader = get_loader(get_val_dataset(path, split_part=split, batch_size=1, task_encoder=Raw(), **options))
    return [int(key) for batch in loader for key in batch["__key__"]]


def test_split_config_replaces_splits_of_catalog(dataset: str) -> None:
    write_split_config(dataset)
    assert keys_of(dataset, split_config="mine.yaml") == TRAIN
    assert keys_of(dataset, "val", split_config="mine.yaml") == list(range(30, 40))
    assert keys_of(dataset) == list(range(40))


def test_split_config_is_found_in_energon_folder(dataset: str) -> None:
    write_split_config(dataset, name=".nv-meta/split.yaml")
    assert keys_of(dataset, split_config="split.yaml") == TRAIN


def test_split_config_omits_samples_excluded_by_catalog(dataset: str) -> None:
    write_split_config(dataset)
    split_dataset(dataset, SplitRequest(excludes=Excludes(keys=("000007",), shards=("shard-002.tar",))))
    assert keys_of(dataset, split_config="mine.yaml") == [0, 1, 2, 6, 8, 9]


REORDERED = "split_parts:\n  train: [shard-002.tar, 'shard-{000..001}.tar']\n  val: [shard-003.tar]\n"


def test_validation_has_order_of_split_file(dataset: str) -> None:
    """A training keeps its order, so that jobs can be resumed."""
    write_split_config(dataset, REORDERED)
    write_split_config(dataset, "split_parts: {train: ['shard-{000..002}.tar']}\n", name=".wdsctl/ascending.yaml")

    def trained(file: str) -> list[str]:
        training = get_train_dataset(dataset, batch_size=1, task_encoder=Raw(), split_config=file, repeat=False)
        return [batch["__key__"][0] for batch in get_loader(training)]

    assert keys_of(dataset, split_config="mine.yaml") == [*range(20, 30), *range(20)]
    assert trained("mine.yaml") == trained("ascending.yaml")


def test_validation_has_order_of_energon_split_that_was_imported(tmp_path: Path) -> None:
    """Not that of patterns of one's own; and ranges of samples are those of the training."""
    split = "split_parts: {train: [parts/data-3.tar, 'parts/data-{0..1}.tar'], val: [parts/data-2.tar]}\n"
    root = an_energon_dataset(tmp_path / "data", split=split)
    own = a_dataset(tmp_path / "own", 20, shard_samples=10)
    split_dataset(own, SplitRequest(rule=SplitRule({}, patterns={"train": ("shard-001.tar", "shard-000.tar")})))
    half = {"path": root, "subset": {"range": ["50%", "100%"]}}

    assert keys_of(root) == [*range(12, 16), *range(8)]
    assert keys_of(root) == [*range(12, 16), *range(8)]  # also after the import
    assert keys_of(half) == [6, 7, *range(12, 16)]
    assert keys_of(own) == list(range(20))


def test_dataset_yaml_may_name_split_config(dataset: str, tmp_path: Path) -> None:
    write_split_config(dataset)
    own = Path(dataset) / ".wdsctl" / "other.yaml"
    own.write_text("sample_type: CrudeSample\nsplit_config: mine.yaml\n")
    energons = an_energon_dataset(tmp_path / "energon", dataset=f"{CRUDE}split_config: split2.yaml\n")
    split = "split_parts: {train: [parts/data-1.tar, parts/data-0.tar]}\n"
    (tmp_path / "energon" / ".nv-meta" / "split2.yaml").write_text(split)

    assert keys_of(dataset, dataset_config="other.yaml") == TRAIN
    assert keys_of(dataset) == list(range(40))
    assert keys_of(energons) == [4, 5, 6, 7, 0, 1, 2, 3]
    assert "split_config" not in (tmp_path / "energon" / ".wdsctl" / "dataset.yaml").read_text()


def test_split_config_divides_samples_of_view(dataset: str) -> None:
    write_split_config(dataset)
    create_view(dataset, "odd", ViewDefinition(where="position % 2 = 1"))
    assert keys_of(f"{dataset}@odd", split_config="mine.yaml") == [key for key in TRAIN if key % 2]


def test_blend_file_takes_split_config(dataset: str, tmp_path: Path) -> None:
    write_split_config(dataset)
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "splits:\n  val:\n    blend_epochized:\n"
        "      - {path: data, split_part: train, split_config: mine.yaml}\n      - {path: data, split_part: train}\n"
    )
    assert sorted(keys_of(str(blend), "val")) == sorted([*TRAIN, *range(40)])


def test_resume_with_split_config_is_exact_and_refused_after_edit(dataset: str) -> None:
    write_split_config(dataset)
    whole = digests(make_training_loader(dataset, split_config="mine.yaml"), 30)
    state = save_state_after(make_training_loader(dataset, split_config="mine.yaml"), 11)
    write_split_config(dataset, "# the same\n" + FILE.replace('"shard-{000..002}.tar"', "shard-000.tar, shard-002.tar"))
    resumed = make_training_loader(dataset, split_config="mine.yaml")
    resumed.restore_state_rank(state)
    assert digests(resumed, 19) == whole[11:]

    write_split_config(dataset, FILE.replace("000005", "000006"))
    with pytest.raises(StateMismatch):
        make_training_loader(dataset, split_config="mine.yaml").restore_state_rank(state)
    with pytest.raises(StateMismatch):
        make_training_loader(dataset).restore_state_rank(state)


def test_training_resumes_after_split_config_adds_new_shards(dataset: str) -> None:
    write_split_config(dataset)
    whole = digests(make_training_loader(dataset, split_config="mine.yaml"), 30)
    state = save_state_after(make_training_loader(dataset, split_config="mine.yaml"), 11)
    a_shard(Path(dataset) / "shard-004.tar", [(f"{i:06}", numbered(i)) for i in range(40, 50)])
    index(dataset)
    write_split_config(dataset, FILE.replace('["shard-{000..002}.tar"]', '["shard-{000..002}.tar", shard-004.tar]'))
    resumed = make_training_loader(dataset, split_config="mine.yaml")
    resumed.restore_state_rank(state)
    assert digests(resumed, 19) == whole[11:]
    assert keys_of(dataset, split_config="mine.yaml") == [*TRAIN, *range(40, 50)]


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("{000..002}", "{000..009}", "mine.yaml:2", "6 names in the file are not in the dataset: shard-004.tar"),
        ("- shard-001.tar", "- shard-01.tar", "mine.yaml:5", "1 name .* shard-01.tar"),
        ("{000003..000005}", "{000003..000011}", "mine.yaml:5", "2 names .* shard-000.tar/000010"),
        ("{000..002}", "{1..%s}" % ("9" * 5000), "mine.yaml:2", "cannot expand"),
        ("  val:", "  v/al:", "mine.yaml:3", "is not a valid split name"),
        ("exclude:", "exclud:", "mine.yaml:5", "unknown key"),
    ],
)
def test_errors_in_split_config_are_reported_with_line_number(
    dataset: str, old: str, new: str, where: str, message: str
) -> None:
    write_split_config(dataset, FILE.replace(old, new))
    with pytest.raises(DatasetError, match=message) as caught:
        keys_of(dataset, split_config="mine.yaml")
    assert caught.value.code == "WDS217"
    assert str(caught.value.where).endswith(where)


def test_missing_split_config_and_unknown_split_are_reported(dataset: str) -> None:
    write_split_config(dataset)
    with pytest.raises(InputError, match=r"split_config 'other\.yaml' does not exist"):
        keys_of(dataset, split_config="other.yaml")
    with pytest.raises(InputError, match="no split 'vall'; it has train, val") as caught:
        keys_of(dataset, "vall", split_config="mine.yaml")
    assert caught.value.code == "WDS211"
