from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_shard, some_shards, split_by_ratios
from tests.core.split_sets import splits_of
from wdsctl.core.energon.split_yaml import read_split_yaml
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.split.report import export_split
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes


def test_exported_split_round_trips(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 12), some_shards(tmp_path / "two", 12)
    index(one)
    index(two)
    split_by_ratios(one, {"train": 8, "val": 1, "test": 1}, by="shard")
    split_dataset(one, SplitRequest(excludes=Excludes(shards=("shard-003.tar",), keys=("000001", "000007"))))
    report = export_split(one, str(tmp_path / "split.yaml"))
    rule, excludes = read_split_yaml(str(tmp_path / "split.yaml"))
    split_dataset(two, SplitRequest(rule=rule, excludes=excludes))

    assert splits_of(two) == splits_of(one)
    assert report.excluded == 3
    with pytest.raises(UsageError, match="the output file exists"):
        export_split(one, str(tmp_path / "split.yaml"))
    assert export_split(one, "", overwrite=True).text == report.text


def test_export_refuses_divided_shards_and_unknown_split_set(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": a_shard([("1.txt", b"a"), ("2.txt", b"b"), ("1.txt", b"c")])})
    index(root)
    split_by_ratios(root, {"train": 1, "val": 1}, by="sample")
    with pytest.raises(DatasetError, match="1 shards are in more than one split") as caught:
        export_split(root, "")
    assert caught.value.code == "WDS217"
    with pytest.raises(InputError, match="no split set 'x'"):
        export_split(root, "", split_set="x")
