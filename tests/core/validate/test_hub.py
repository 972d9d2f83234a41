from __future__ import annotations

from pathlib import Path

from tests.build import a_dataset, samples
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset
from wdsctl.core.validate.request import ValidateReport, ValidateRequest
from wdsctl.core.validate.validate import validate


def hub_findings(root: str) -> list[Finding]:
    report = validate(root, ValidateRequest(target="hub"))
    assert isinstance(report, ValidateReport)
    return [finding for finding in report.findings if finding.code in ("WDS166", "WDS256")]


def test_first_five_samples_of_split_need_same_parts(tmp_path: Path) -> None:
    shards = {f"s-{i}.tar": samples(8 * i, 8, "jpg", "txt") for i in range(3)}
    del shards["s-0.tar"]["000005.txt"]  # the sixth of its split
    del shards["s-1.tar"]["000008.txt"]  # the first of a later shard
    del shards["s-2.tar"]["000020.txt"]  # the fifth of its split
    root = a_dataset(tmp_path / "a", shards)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(pattern=("train=s-{0..1}.tar", "val=s-2.tar"))))
    [finding] = hub_findings(root)
    assert (finding.code, finding.severity, finding.shard, finding.key) == ("WDS166", "error", "s-2.tar", "000020")
    assert "split val have different parts, jpg and txt in the first and jpg here" in finding.message
    default_report = validate(root, ValidateRequest())
    assert all(each.code != "WDS166" for each in default_report.findings)


def test_shards_in_several_splits_are_reported_once(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a.tar": samples(0, 30), "b.tar": samples(30, 30)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1,val=1", by="sample")))
    [finding] = hub_findings(root)
    assert (finding.code, finding.count) == ("WDS256", 2)


def test_dataset_without_splits_is_checked_as_one_split(tmp_path: Path) -> None:
    members = samples(0, 4, "jpg", "txt")
    del members["000001.txt"]
    root = a_dataset(tmp_path / "a", {"a.tar": members})
    index(root)
    assert [finding.key for finding in hub_findings(root)] == ["000001"]
