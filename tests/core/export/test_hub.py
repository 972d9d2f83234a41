from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.build import a_dataset, an_image, samples
from tests.core.export.readers import reader, run_in
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportReport, ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

LOAD_SCRIPT = """
import json, sys
from datasets import load_dataset
found = load_dataset(sys.argv[1], cache_dir=sys.argv[2])
print(json.dumps({
    "keys": {split: rows["__key__"][:] for split, rows in found.items()},
    "features": {name: type(feature).__name__ for name, feature in found["train"].features.items()},
}))
"""


def a_root(tmp_path: Path, *parts: str, shards_per_split: dict[str, int] | None = None) -> str:
    """Shards of four samples, named after their splits."""
    files: dict[str, dict[str, bytes]] = {}
    for split, count in (shards_per_split or {"train": 3, "val": 1}).items():
        for i in range(count):
            files[f"{split}-{i:05d}.tar"] = samples(100 * len(files), 4, *parts)
    root = a_dataset(tmp_path / "a", files)
    index(root)
    patterns = [f"{split}={split}-*.tar" for split in shards_per_split or ("train", "val")]
    split_dataset(root, parse_split_request(SplitOptions(pattern=tuple(patterns))))
    return root


def to_hub(root: str, **options: Any) -> tuple[ExportReport, dict[str, Any]]:
    report = export(ExportRequest(root=root, target="hub", **options))
    text = Path(report.path).read_text()
    return report, yaml.safe_load(text.split("---\n")[1])


def test_card_has_splits_counts_and_features(tmp_path: Path) -> None:
    root = a_root(tmp_path, "jpg", "txt", "cls", "seg.png", "bin")
    report, head = to_hub(root)
    assert head["configs"] == [
        {
            "config_name": "default",
            "data_files": [
                {"split": "train", "path": "train-*.tar"},
                {"split": "val", "path": ["val-00000.tar"]},
            ],
        }
    ]
    assert {each["name"]: each["dtype"] for each in head["dataset_info"]["features"]} == {
        "jpg": "image",
        "seg.png": "image",
        "txt": "string",
        "cls": "int64",
        "bin": "binary",
        "__key__": "string",
        "__url__": "string",
    }
    counts = {each["name"]: each["num_examples"] for each in head["dataset_info"]["splits"]}
    assert counts == report.splits == {"train": 12, "val": 4}
    assert head["license"] == "unknown"


def test_pattern_matches_only_shards_of_its_split(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {f"s-{i}.tar": samples(4 * i, 4) for i in range(9)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=7,val=2", by="shard")))
    _, head = to_hub(root)
    paths = {each["split"]: each["path"] for each in head["configs"][0]["data_files"]}
    listed = {
        split: {f"s-{i}.tar" for i in range(9) if any(fnmatchcase(f"s-{i}.tar", each) for each in patterns)}
        for split, patterns in paths.items()
    }
    assert (len(listed["train"]), len(listed["val"])) == (7, 2)
    assert not listed["train"] & listed["val"]


def test_features_of_json_are_left_to_hub(tmp_path: Path) -> None:
    report, head = to_hub(a_root(tmp_path, "jpg", "json"))
    assert "features" not in head["dataset_info"]
    assert report.notes == ("the card has no features: the Hub infers the structure of json",)


def test_split_names_that_hub_forbids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the split name 'hold-out'") as caught:
        to_hub(a_root(tmp_path, shards_per_split={"train": 1, "hold-out": 1}))
    assert caught.value.code == "WDS257"


def test_license_is_in_card(tmp_path: Path) -> None:
    report, head = to_hub(a_root(tmp_path), license_id="cc-by-4.0")
    assert head["license"] == "cc-by-4.0"
    assert "## License\n\ncc-by-4.0\n" in Path(report.path).read_text()


@pytest.mark.parametrize(("target", "license_id"), [("hub", "my own terms"), ("energon", "mit"), ("wids", "mit")])
def test_invalid_license_is_refused(tmp_path: Path, target: Any, license_id: str) -> None:
    with pytest.raises(UsageError, match="license"):
        export(ExportRequest(root=a_root(tmp_path), target=target, license_id=license_id))


def test_datasets_library_loads_splits_and_features_of_card(tmp_path: Path) -> None:
    python = reader("datasets")
    members = {f"{i}.png": an_image("png") for i in range(12)} | {f"{i}.txt": b"a text" for i in range(12)}
    shards = {
        f"{split}-0000{n}.tar": {name: members[name] for i in numbers for name in (f"{i}.png", f"{i}.txt")}
        for split, n, numbers in (("train", 0, range(5)), ("train", 1, range(5, 9)), ("val", 0, range(9, 12)))
    }
    root = a_dataset(tmp_path / "a", shards)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(pattern=("train=train-*.tar", "val=val-*.tar"))))
    export(ExportRequest(root=root, target="hub"))
    loaded = json.loads(run_in(python, LOAD_SCRIPT, root, str(tmp_path / "cache")).splitlines()[-1])
    assert loaded["keys"] == {"train": [str(i) for i in range(9)], "val": ["9", "10", "11"]}
    assert loaded["features"] == {"png": "Image", "txt": "Value", "__key__": "Value", "__url__": "Value"}
