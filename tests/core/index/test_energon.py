from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_shard, samples, split_by_ratios, tree
from tests.core.catalog.readers import select_split
from tests.energon import CAPTIONING, SPLIT, TRAIN, VAL, an_energon_dataset
from wdsctl.core.catalog.splits import sample_flags
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule

CODE = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nsample_loader: sample_loader.py:load\n"


def keys(root: str, name: str) -> list[str]:
    place = locate(root)
    offsets = Offsets(place.offsets_path(1))
    chosen, found = select_split(place, name), []
    for shard, first in zip(offsets.shards, offsets.shard_row.tolist(), strict=False):
        if shard.id in chosen:
            flags = sample_flags(chosen[shard.id], shard.samples)
            found += [offsets.key(first + i) for i in range(shard.samples) if flags[i]]
    return sorted(found)


@pytest.mark.parametrize("command", [index, prepare])
def test_index_and_prepare_import_energon_metadata(command: object, tmp_path: Path) -> None:
    root, progress = an_energon_dataset(tmp_path), RecordingProgress()
    before = tree(tmp_path / ".nv-meta")
    command(root, progress=progress)  # type: ignore[operator]  # both take it

    assert (keys(root, "train"), keys(root, "val")) == (TRAIN, VAL)
    config = load_config(locate(root).config_path)
    assert (config.sample_type, config.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert config.subflavors == {"source": "web"}
    (message,) = (note for note in progress.notes if "imported from" in note)
    assert message.startswith(
        f"imported from {root}/.nv-meta: CaptioningSample and its field map, subflavors, the splits"
    )
    assert message.endswith("train, val, test (4 samples in none of them), exclude (2 entries)")
    assert tree(tmp_path / ".nv-meta") == before
    second_progress = RecordingProgress()
    assert index(root, progress=second_progress).up_to_date
    assert not second_progress.notes
    assert prepare(root).up_to_date


def test_rebuild_keeps_energon_splits(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    index(root)
    index(root, rebuild=True)
    place = locate(root)
    assert sum(part.samples for part in select_split(place, "train").values()) == len(TRAIN)


def test_wdsctl_dataset_yaml_overrides_energon_type_and_gets_its_splits(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    own = tmp_path / ".wdsctl" / "dataset.yaml"
    own.parent.mkdir()
    own.write_text("sample_type: TextSample  # mine\nfield_map: {text: txt}\n")
    index(root)
    assert own.read_text().startswith("sample_type: TextSample  # mine\nfield_map: {text: txt}\n")
    assert (load_config(str(own)).sample_type, keys(root, "train")) == ("TextSample", TRAIN)


def test_wdsctl_split_overrides_energon_splits_and_exclude(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    own = tmp_path / ".wdsctl" / "dataset.yaml"
    own.parent.mkdir()
    own.write_text("sample_type: TextSample\nfield_map: {text: txt}\nsplit: {shares: {train: 1}}\n")
    index(root)
    assert len(keys(root, "train")) == 20


def test_energon_splits_are_added_next_to_split_set_with_exclusions(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path / "data")
    meta = (tmp_path / "data" / ".nv-meta").rename(tmp_path / "later")
    index(root)
    split_dataset(root, SplitRequest(rule=SplitRule({"a": 1}), split_set="own"))
    meta.rename(tmp_path / "data" / ".nv-meta")
    index(root)

    assert (keys(root, "train"), keys(root, "val")) == (TRAIN, VAL)
    excluded = {f"{i:06}" for i in (1, 2, 4, 5, 6, 7)}
    assert keys(root, "own/a") == sorted({f"{i:06}" for i in range(20)} - excluded)
    assert index(root).up_to_date


def test_requested_splits_override_energon_but_keep_its_exclude(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    prepare(root, None, PrepareRequest(split={"train": 1}))
    excluded = {f"{i:06}" for i in (1, 2, 4, 5, 6, 7)}
    assert keys(root, "train") == sorted({f"{i:06}" for i in range(20)} - excluded)


def test_requested_sample_type_overrides_energon(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    prepare(root, None, PrepareRequest(sample_type="TextSample", field_map={"text": "txt"}))
    assert (load_config(locate(root).config_path).sample_type, keys(root, "train")) == ("TextSample", TRAIN)


def test_sample_type_is_detected_without_energon_dataset_yaml(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, dataset=None)
    report = prepare(root)
    assert report.detection is not None
    assert load_config(locate(root).config_path).sample_type == report.detection.sample_type
    assert keys(root, "train") == TRAIN


def test_energon_sample_loader_is_recorded_but_not_run(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, dataset=CODE)
    (tmp_path / ".nv-meta" / "sample_loader.py").write_text("raise SystemExit('it ran')\n")
    index(root)
    assert load_config(locate(root).config_path).sample_loader == "sample_loader.py:load"


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        (SPLIT.replace("{0..2}", "{0..7}"), "3 names in the file are not in the dataset", "WDS217"),
        (SPLIT.replace("[parts/data-3.tar]", "[parts/data-2.tar]"), "patterns of several splits", "WDS212"),
        (SPLIT.replace("- parts/data-1.tar", "- parts/data-9.tar"), "1 name in the file is not", "WDS217"),
        (SPLIT.replace("{000001..000002}", "000007"), "nothing to exclude: no shard or sample matches", "WDS214"),
        ("train: [a.tar]\n", "missing `split_parts:`", "WDS217"),
    ],
)
def test_energon_splits_that_do_not_match_shards_are_refused(text: str, words: str, code: str, tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=text)
    with pytest.raises(DatasetError, match=words) as raised:
        index(root)
    assert raised.value.code == code
    assert f"{root}/.nv-meta/split.yaml" in raised.value.where
    assert not (tmp_path / ".wdsctl" / "dataset.yaml").exists()
    split_by_ratios(root, {"train": 1.0})  # as the hint says
    index(root)
    assert len(keys(root, "train")) == 20


def test_missing_shards_of_energon_splits_are_named_as_written_with_line(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=SPLIT.replace("val: [parts/data-3.tar]", "val: ['parts/data-*.tar']"))
    with pytest.raises(DatasetError, match=r"1 name in the file is not in the dataset: parts/data-\*\.tar\n") as raised:
        index(root)
    assert raised.value.where == f"{root}/.nv-meta/split.yaml:3"
    assert "without wildcards" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        (f"{CAPTIONING}decoder: none\n", 8, "'decoder' is an argument of Energon's class", "`decoder` of the task"),
        ("__module__: x\n__class__: Y\nstride: 3\n", 3, "'stride' is an argument of Energon's class", "in __init__"),
        ("__module__: x\n__class__: Y\nfield_mpa: 3\n", 3, "unknown key 'field_mpa'", "did you mean field_map"),
    ],
)
def test_unknown_keys_of_energon_dataset_yaml_are_refused(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    root = an_energon_dataset(tmp_path, dataset=text)
    with pytest.raises(DatasetError, match=message) as raised:
        index(root)
    assert raised.value.where == f"{root}/.nv-meta/dataset.yaml:{line}"
    assert hint in str(raised.value.hint)


def test_energon_splits_are_limited_to_indexed_shards(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    index(root, exclude=["parts/data-3.tar"])
    assert (keys(root, "train"), select_split(locate(root), "val")) == (TRAIN, {})


def test_differing_energon_sample_counts_are_reported(tmp_path: Path) -> None:
    counts = {f"parts/data-{i}.tar": 4 for i in (0, 1, 2, 3, 6)} | {"parts/data-1.tar": 3}
    root = an_energon_dataset(tmp_path, counts=counts)
    found = [each for each in index(root).findings if each.code == "WDS129"]
    assert [(each.severity, each.shard, each.count) for each in found] == [
        ("warning", "parts/data-1.tar", 1),
        ("warning", "parts/data-6.tar", 1),
        ("warning", "parts/data-4.tar", 1),
    ]
    assert found[0].message == "Energon counted 3 samples in the shard, but it has 4"


def test_unreadable_energon_counts_are_warning(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    (tmp_path / ".nv-meta" / ".info.json").write_text("{")
    (found,) = index(root).findings
    assert (found.code, found.severity) == ("WDS129", "warning")
    assert keys(root, "train") == TRAIN


def test_compressed_shards_in_energon_split_are_skipped(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=SPLIT.replace("train: [", "train: [parts/data-5.tgz, "))
    (tmp_path / "parts" / "data-5.tgz").write_bytes(b"anything")
    assert [each.code for each in index(root).findings] == ["WDS113"]
    assert keys(root, "train") == TRAIN


def test_new_shards_join_no_energon_split(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    index(root)
    (tmp_path / "parts" / "data-9.tar").write_bytes(a_shard(samples(90, 2)))
    assert index(root).added == 1
    assert sum(part.samples for part in select_split(locate(root), "train").values()) == len(TRAIN)


def test_dry_run_imports_no_energon_metadata(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    before = tree(tmp_path)
    index(root, dry_run=True)
    prepare(root, None, PrepareRequest(index=IndexRequest(dry_run=True)))
    assert tree(tmp_path) == before
