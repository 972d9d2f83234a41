"""`--naming hub`: each shard belongs to one split and is named as the Hugging Face Hub names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.build import a_dataset, samples, some_shards
from tests.core.conversions import content, convert_to, keys, splits
from tests.core.export.readers import reader, run_in
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate

LOAD_SCRIPT = """
import json, sys
from datasets import load_dataset
builder, folder, cache = sys.argv[1:]
found = load_dataset(builder, data_dir=folder, cache_dir=cache) if builder else load_dataset(folder, cache_dir=cache)
print(json.dumps({
    split: {row["__key__"]: [row["txt"], bytes(row["bin"]).hex()] for row in rows} for split, rows in found.items()
}))
"""


def split_by_sample(tmp_path: Path, names: str = "train=8,val=1,test=1", shards: int = 3) -> str:
    files = {f"{i}.tar": samples(20 * i, 20, "txt", "bin") for i in range(shards)}
    root = a_dataset(tmp_path / "a", files)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios=names, by="sample")))
    return root


def test_naming_hub_puts_each_split_into_its_own_shards(tmp_path: Path) -> None:
    report = convert_to(tmp_path / "hub", split_by_sample(tmp_path), naming="hub", shard_samples=25)

    assert sorted(path.name for path in (tmp_path / "hub").glob("*.tar")) == [
        "test-00000-of-00001.tar",
        "train-00000-of-00002.tar",
        "train-00001-of-00002.tar",
        "val-00000-of-00001.tar",
    ]
    assert report.datasets[0].splits == {"train": 48, "val": 6, "test": 6}
    assert splits(tmp_path / "hub") == splits(tmp_path / "a")
    exported = export(ExportRequest(root=str(tmp_path / "hub"), target="hub"))
    assert exported.splits == {"train": 48, "val": 6, "test": 6}
    checked = validate(str(tmp_path / "hub"), ValidateRequest(target="hub"))
    assert not [finding for finding in checked.findings if finding.severity == "error"]
    head = yaml.safe_load(Path(exported.path).read_text().split("---\n")[1])
    assert {each["name"]: each["num_examples"] for each in head["dataset_info"]["splits"]} == exported.splits


def test_shards_do_not_depend_on_number_of_workers(tmp_path: Path) -> None:
    source = split_by_sample(tmp_path)
    for name, workers in (("one", 1), ("three", 3)):
        convert_to(tmp_path / name, source, naming="hub", shard_samples=7, workers=workers, order="shuffle", seed=1)

    def read_shards(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.tar")}

    assert read_shards("one") == read_shards("three")


def test_dataset_without_splits_is_train(tmp_path: Path) -> None:
    convert_to(tmp_path / "hub", some_shards(tmp_path / "a", 2), naming="hub")

    assert [path.name for path in (tmp_path / "hub").glob("*.tar")] == ["train-00000-of-00001.tar"]


def test_parquet_files_follow_hub_naming(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    convert_to(tmp_path / "hub", split_by_sample(tmp_path), naming="hub", to_format="parquet")

    assert sorted(path.name for path in (tmp_path / "hub").glob("*.parquet")) == [
        "test-00000-of-00001.parquet",
        "train-00000-of-00001.parquet",
        "val-00000-of-00001.parquet",
    ]


def test_key_in_two_splits_is_refused_without_on_collision(tmp_path: Path) -> None:
    for name, split in (("a", "train"), ("b", "val")):
        root = a_dataset(tmp_path / name, {"0.tar": samples(0, 2)})
        index(root)
        split_dataset(root, parse_split_request(SplitOptions(pattern=(f"{split}=*.tar",))))
    sources = [str(tmp_path / name) for name in ("a", "b")]

    with pytest.raises(UsageError, match="occur more than once") as caught:
        convert_to(tmp_path / "hub", *sources, naming="hub")
    assert caught.value.code == "WDS340"
    convert_to(tmp_path / "hub", *sources, naming="hub", on_collision="prefix")
    assert keys(tmp_path / "hub") == ["a/000000", "a/000001", "b/000000", "b/000001"]


def test_split_names_that_hub_forbids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="hold-out") as caught:
        convert_to(tmp_path / "hub", split_by_sample(tmp_path, "train=8,hold-out=2"), naming="hub")
    assert caught.value.code == "WDS257"


@pytest.mark.parametrize(
    "options",
    [{"apart": "split"}, {"to_format": "mds"}, {"template": "x-{index}.tar"}, {"compress": "gz"}, {"split": "val"}],
)
def test_options_that_contradict_naming_hub_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--naming hub"):
        convert_to(tmp_path / "hub", split_by_sample(tmp_path, shards=1), naming="hub", **options)


@pytest.mark.parametrize("has_card", [False, True])
def test_datasets_library_reads_same_splits_and_samples(tmp_path: Path, *, has_card: bool) -> None:
    python = reader("datasets")
    root = tmp_path / "hub"
    convert_to(root, split_by_sample(tmp_path), naming="hub", shard_samples=25)
    if has_card:
        export(ExportRequest(root=str(root), target="hub"))

    output = run_in(python, LOAD_SCRIPT, "" if has_card else "webdataset", str(root), str(tmp_path / "cache"))
    actual = json.loads(output.splitlines()[-1])

    validation = "val" if has_card else "validation"  # without a card, datasets renames the split
    assert {split: len(rows) for split, rows in actual.items()} == {"train": 48, validation: 6, "test": 6}
    parts = content(root)
    for rows in actual.values():
        for key, (text, data) in rows.items():
            assert (text.encode(), bytes.fromhex(data)) == (parts[f"{key}.txt"], parts[f"{key}.bin"])
