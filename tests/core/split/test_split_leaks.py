from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, samples, split_by_ratios
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS
from wdsctl.core.split import leaks
from wdsctl.core.split.leaks import LeakCount, find_leaks
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule

PATTERNS: dict[str, tuple[str, ...]] = {"train": ("a.tar",), "val": ("b.tar",), "test": ("c.tar",)}


def make_leaky_dataset(root: Path) -> str:
    """Three splits; val repeats the images of 000001 and 000002 of train under other keys; all texts differ."""
    a, b, c = samples(0, 20), samples(20, 20), samples(40, 20)
    b["000020.jpg"], b["000021.jpg"] = a["000001.jpg"], a["000002.jpg"]
    b["000022.jpg"] = a["000002.jpg"]
    c["000040.jpg"] = c["000041.jpg"]  # twice, in one split
    path = a_dataset(root, {"a.tar": a, "b.tar": b, "c.tar": c})
    index(path)
    split_dataset(path, SplitRequest(rule=SplitRule({}, patterns=PATTERNS)))
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_find_leaks_finds_same_content_under_other_keys(tmp_path: Path, workers: int) -> None:
    root = make_leaky_dataset(tmp_path)
    report = find_leaks(root, workers=workers)

    assert report.parts == ("jpg",)
    assert set(report.counts) == {
        LeakCount(split="val", other="train", samples=3),
        LeakCount(split="train", other="val", samples=2),
    }
    assert [(pair.one, pair.other) for pair in report.pairs] == [
        ("a.tar/000001", "b.tar/000020"),
        ("a.tar/000002", "b.tar/000021"),
        ("a.tar/000002", "b.tar/000022"),
    ]
    [found] = report.findings
    assert (found.code, found.severity, found.count) == ("WDS216", "error", 3)


@pytest.mark.usefixtures("place")
def test_find_leaks_compares_media_of_every_format_by_default(tmp_path: Path) -> None:
    shards = {
        f"{shard}.tar": {f"{shard}.{extension}": extension.encode() for extension in MEDIA_EXTENSIONS}
        | {f"{shard}.txt": b"x"}
        for shard in "ab"
    }
    root = a_dataset(tmp_path, shards)
    index(root)
    split_dataset(root, SplitRequest(rule=SplitRule({}, patterns={"x": ("a.tar",), "y": ("b.tar",)})))

    report = find_leaks(root)

    assert set(report.parts) == MEDIA_EXTENSIONS
    assert [(pair.one, pair.other) for pair in report.pairs] == [("a.tar/a", "b.tar/b")]


def test_leak_findings_are_recorded_in_ledger(tmp_path: Path) -> None:
    root = make_leaky_dataset(tmp_path)
    find_leaks(root)
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        run = ledger.runs()[-1]
        assert run["command"] == "split"
        assert [found.code for found in ledger.findings(run["id"])] == ["WDS216"]


def test_find_leaks_compares_named_parts(tmp_path: Path) -> None:
    root = make_leaky_dataset(tmp_path)

    assert find_leaks(root, ["txt"]).counts == ()
    assert find_leaks(root, ["jpg", "txt"]).counts == ()
    with pytest.raises(UsageError, match="no sample has a part 'png'"):
        find_leaks(root, ["png"])


def test_find_leaks_reads_only_samples_of_sizes_in_two_splits(tmp_path: Path) -> None:
    a, b = samples(0, 50, size=10), samples(50, 50, size=11)
    b["000050.jpg"] = a["000000.jpg"]
    root = a_dataset(tmp_path, {"a.tar": a, "b.tar": b})
    index(root)
    split_dataset(root, SplitRequest(rule=SplitRule({}, patterns={"x": ("a.tar",), "y": ("b.tar",)})))
    report = find_leaks(root)

    assert report.hashed == 51
    assert [pair.one for pair in report.pairs] == ["a.tar/000000"]


def test_find_leaks_result_is_same_with_hashes_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_leaky_dataset(tmp_path)
    expected = find_leaks(root)
    monkeypatch.setattr(leaks, "MAX_SORTED_HASHES", 7)

    assert find_leaks(root) == expected


def test_find_leaks_ignores_empty_and_missing_parts(tmp_path: Path) -> None:
    a, b = {"1.jpg": b"", "2.txt": b"x", "3.jpg": b"y"}, {"4.jpg": b"", "5.txt": b"x", "6.jpg": b"y"}
    root = a_dataset(tmp_path, {"a.tar": a, "b.tar": b})
    index(root)
    split_dataset(root, SplitRequest(rule=SplitRule({}, patterns={"x": ("a.tar",), "y": ("b.tar",)})))

    assert [(pair.one, pair.other) for pair in find_leaks(root).pairs] == [("a.tar/3", "b.tar/6")]


def test_unreadable_shard_is_reported_and_others_are_compared(tmp_path: Path) -> None:
    root = make_leaky_dataset(tmp_path)
    (tmp_path / "c.tar").unlink()
    report = find_leaks(root)

    assert {found.code for found in report.findings} > {"WDS216"}
    assert len(report.pairs) == 3


def test_find_leaks_refuses_missing_split_set(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4)})
    index(root)
    with pytest.raises(InputError, match="no splits yet"):
        find_leaks(root)
    split_by_ratios(root, {"train": 1.0})
    with pytest.raises(InputError, match="no split set 'folds'"):
        find_leaks(root, split_set="folds")
    assert find_leaks(root).findings == ()
