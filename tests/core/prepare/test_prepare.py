from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, rewrite_shard, samples, some_shards, tree
from tests.core.captioned import a_jpeg, captions
from tests.core.dumps import catalog_of, split_of
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, DatasetError, UsageError
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def test_shards_are_prepared_in_place_without_touching_tars(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"deep/er/a.tar": captions(0, 5), "b.tar": captions(5, 5)})
    before = tree(root)
    report = prepare(root)

    assert (report.from_folder, report.up_to_date, report.dest) == (False, False, root)
    assert report.index is not None
    assert (report.index.shards, report.index.samples) == (2, 10)
    assert report.detection is not None
    assert report.detection.sample_type == "CaptioningSample"
    config = load_config(locate(root).config_path)
    assert (config.sample_type, config.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert set(split_of(root).values()) == {"train"}
    after = tree(root)
    assert {name: after[name] for name in before if name.endswith(".tar")} == {
        name: before[name] for name in before if name.endswith(".tar")
    }


def test_captions_in_another_encoding_are_captions_and_a_warning(tmp_path: Path) -> None:
    files = captions(0, 8)
    files |= {f"{i:03d}.txt": f"Zoë {i}".encode("latin-1") for i in range(6)}
    report = prepare(a_dataset(tmp_path, {"a.tar": files}))

    assert report.detection is not None
    assert report.detection.sample_type == "CaptioningSample"
    assert report.index is not None
    (finding,) = report.index.findings
    assert (finding.code, finding.severity) == ("WDS145", "warning")
    assert finding.message.startswith("txt: 6 of the 8 that were read are not UTF-8")


def test_raw_files_become_shards_catalog_and_split(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 20))
    report = prepare(source, str(tmp_path / "made"), PrepareRequest(shard_samples=2, split={"train": 8, "val": 2}))

    assert report.from_folder
    assert report.folder is not None
    assert (report.folder.shards, report.folder.samples) == (10, 20)
    assert report.split is not None
    assert {s.name: s.samples for s in report.split.splits} == {"train": 16, "val": 4}
    assert inspect(str(tmp_path / "made")).first[0].key == "000"


def test_table_lists_everything_that_is_left_out_of_raw_folder(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 20))
    lone = [f"lone{i:02d}" for i in range(7)]
    a_folder(tmp_path / "raw", {f"{key}.jpg": b"x" for key in lone})
    Path(os.fsdecode(os.path.join(os.fsencode(source), b"caf\xe9.t"))).write_bytes(b"")

    folder = prepare(source, str(tmp_path / "made"), PrepareRequest(on_missing="skip")).folder

    assert folder is not None
    rows = Path(folder.left_out_list).read_text(encoding="utf-8").splitlines()
    assert rows == [
        "code\tname\treason",
        *(f"WDS201\t{key}\tno txt" for key in lone),
        "WDS201\tcaf\\xe9.t\tthe name is not UTF-8",
    ]
    assert len(folder.examples) < len(rows) - 1


@pytest.mark.parametrize("on_missing", ["skip", "keep"])
def test_table_of_left_out_files_has_no_samples_that_are_kept(
    tmp_path: Path, on_missing: Literal["skip", "keep"]
) -> None:
    source, dest = a_folder(tmp_path / "raw", {**captions(0, 20), "lone.jpg": a_jpeg(1)}), str(tmp_path / "made")
    skipped = prepare(source, dest, PrepareRequest(on_missing="skip")).folder
    assert skipped is not None
    assert os.path.exists(skipped.left_out_list)
    if on_missing == "skip":
        (tmp_path / "raw" / "lone.txt").write_text("a cat")

    folder = prepare(source, dest, PrepareRequest(on_missing=on_missing)).folder

    assert folder is not None
    assert folder.left_out_list == ""
    assert not os.path.exists(skipped.left_out_list)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("is_raw", [True, False])
def test_second_run_is_up_to_date_and_writes_only_ledger(tmp_path: Path, is_raw: bool) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 6)) if is_raw else some_shards(tmp_path / "tars", 3)
    dest = str(tmp_path / "made") if is_raw else None
    options = PrepareRequest(split={"train": 2, "val": 1}, accept_type=True)
    options = replace(options, shard_samples=2) if is_raw else options
    first = prepare(source, dest, options)
    before = tree(first.dest)
    again = prepare(source, dest, options)

    assert (first.up_to_date, again.up_to_date) == (False, True)
    assert again.split is not None
    changed = {name for name, stat in tree(again.dest).items() if before.get(name) != stat}
    assert changed <= {".wdsctl", ".wdsctl/ledger.sqlite"}


def test_new_raw_files_are_appended_as_new_shards(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 6))
    dest = str(tmp_path / "made")
    prepare(source, dest, PrepareRequest(shard_samples=2))
    a_folder(tmp_path / "raw", captions(6, 2))
    report = prepare(source, dest, PrepareRequest(shard_samples=2))

    assert report.index is not None
    assert (report.index.added, report.index.unchanged, report.index.samples) == (1, 3, 8)
    assert not report.up_to_date


def test_edited_dataset_yaml_is_kept_unless_request_changes_it(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5)})
    prepare(root)
    path = Path(locate(root).config_path)
    edited = "# mine\n" + path.read_text().replace("subflavors: {}", "") + "subflavors: {source: web}\n"
    path.write_text(edited)
    report = prepare(root)

    assert (report.detection, report.up_to_date, path.read_text()) == (None, True, edited)
    report = prepare(root, request=PrepareRequest(sample_type="CrudeSample"))
    assert not report.up_to_date
    config = load_config(str(path))
    assert (config.sample_type, config.subflavors) == ("CrudeSample", {"source": "web"})
    report = prepare(root, request=PrepareRequest(redetect=True))
    assert report.detection is not None
    assert load_config(str(path)).sample_type == "CaptioningSample"


def test_request_equal_to_dataset_yaml_is_up_to_date(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5)})
    options = PrepareRequest(sample_type="CaptioningSample", field_map={"image": "jpg", "caption": "txt"})
    prepare(root, request=options)
    path = Path(locate(root).config_path)
    path.write_text("# mine\n" + path.read_text())
    before = path.read_text()

    assert prepare(root, request=options).up_to_date
    assert path.read_text() == before


def test_new_split_request_is_not_up_to_date(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    prepare(root, request=PrepareRequest(accept_type=True))
    report = prepare(root, request=PrepareRequest(split={"train": 9, "val": 1}))

    assert not report.up_to_date
    assert sorted(set(split_of(root).values())) == ["train", "val"]


def test_dry_runs_write_nothing(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 6))
    some_shards(tmp_path / "tars", 3)
    before = tree(tmp_path)
    output = prepare(source, str(tmp_path / "made"), PrepareRequest(shard_samples=2, index=IndexRequest(dry_run=True)))
    tars = prepare(str(tmp_path / "tars"), request=PrepareRequest(index=IndexRequest(dry_run=True)))

    assert output.folder is not None
    assert (output.folder.shards, output.folder.samples, output.index) == (3, 6, None)
    assert tars.index is not None
    assert (tars.index.added, tars.dry_run) == (3, True)
    assert tree(tmp_path) == before


def test_excluded_shards_are_not_indexed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    report = prepare(root, request=PrepareRequest(index=IndexRequest(exclude=("*-001.tar",)), accept_type=True))

    assert report.index is not None
    assert report.index.samples == 10


@pytest.mark.usefixtures("place")
def test_bad_shards_are_reported_and_the_rest_is_prepared(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5), "b.tar": b"bad"})
    report = prepare(root)

    assert report.index is not None
    assert [finding.code for finding in report.index.findings] == ["WDS101"]
    assert report.split is not None


def test_dataset_of_only_bad_shards_has_findings_and_no_split(tmp_path: Path) -> None:
    report = prepare(a_dataset(tmp_path, {"b.tar": b"bad"}))

    assert report.index is not None
    assert ([finding.code for finding in report.index.findings], report.split) == (["WDS101", "WDS119"], None)
    assert catalog_of(tmp_path).exists()


def test_detection_works_with_kept_missing_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5), "b.tar": captions(5, 5)})
    prepare(root)
    (tmp_path / "b.tar").unlink()
    report = prepare(root, request=PrepareRequest(redetect=True, index=IndexRequest(missing="keep")))

    assert report.detection is not None
    assert report.detection.sample_type == "CaptioningSample"


def test_renamed_shards_are_refused_with_their_expected_names(tmp_path: Path) -> None:
    source, output = a_folder(tmp_path / "raw", captions(0, 3)), tmp_path / "made"
    prepare(source, str(output))
    (output / "shard-000000.tar").rename(output / "mine.tar")

    with pytest.raises(UsageError, match=r"already contains other shards: mine\.tar") as caught:
        prepare(source, str(output))
    assert "restore their names (shard-000000.tar)" in str(caught.value.hint)
    assert not (output / "shard-000000.tar").exists()


def test_run_that_lost_its_lock_writes_no_more_shards(tmp_path: Path) -> None:
    source, output = a_folder(tmp_path / "raw", captions(0, 6)), tmp_path / "made"
    output.mkdir()
    place = locate(str(output))

    def take_lock() -> None:
        if os.path.exists(place.lock):
            Path(place.lock).write_text("of another")

    with pytest.raises(CatalogError, match="another process took the lock"):
        prepare(source, str(output), PrepareRequest(shard_samples=1), progress=RecordingProgress(at_advance=take_lock))
    with Ledger.open_for_reading(place.ledger_path) as ledger:
        assert [record.state for record in ledger.planned_shards()] == ["done", *["planned"] * 5]
    assert len(list(output.glob("*.tar"))) == 2  # including the one in progress
    assert not os.path.exists(place.catalog_path)


def test_redetect_repairs_broken_dataset_yaml(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    prepare(root, request=PrepareRequest(split={"train": 8, "val": 2}, accept_type=True))
    path = Path(locate(root).config_path)
    path.write_text("sample_type: [")

    with pytest.raises(DatasetError) as caught:
        prepare(root)
    assert caught.value.code == "WDS220"
    report = prepare(root, request=PrepareRequest(redetect=True, accept_type=True))
    assert (report.up_to_date, report.detection is not None) == (False, True)
    assert load_config(str(path)).split is not None
    assert prepare(root).up_to_date


def test_detection_maps_json_keys_to_fields(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for i in range(6):
        files |= {f"{i}.jpg": a_jpeg(i), f"{i}.json": json.dumps({"caption": f"words of {i}"}).encode()}
    root = a_dataset(tmp_path, {"a.tar": files})
    prepare(root)

    assert load_config(locate(root).config_path).field_map == {"image": "jpg", "caption": "json[caption]"}


def test_inspect_lists_same_samples_for_raw_files_and_for_shards(tmp_path: Path) -> None:
    raw, dest = a_folder(tmp_path / "raw", samples(0, 4)), str(tmp_path / "made")
    shards = {f"shard-{i:06d}.tar": samples(2 * i, 2) for i in range(2)}
    tars = a_dataset(tmp_path / "tars", shards)
    prepare(raw, dest, PrepareRequest(shard_samples=2, accept_type=True))
    prepare(tars, request=PrepareRequest(accept_type=True))

    first = inspect(dest, samples=4).first
    assert [(line.key, line.shard) for line in first] == [(f"{i:06d}", f"shard-{i // 2:06d}.tar") for i in range(4)]
    assert [[part.name for part in line.parts] for line in first] == [["jpg", "txt"]] * 4
    assert inspect(tars, samples=4).first == first


def video_members(*parts: str) -> dict[str, bytes]:
    content = {"mp4": b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(64), "jpg": a_jpeg(1), "txt": b"a dog runs"}
    return {f"{i}.{part}": content[part] for i in range(4) for part in parts}


def test_unsure_sample_type_is_refused_last_with_both_commands(tmp_path: Path) -> None:
    root = a_dataset(
        tmp_path, {"a.tar": video_members("mp4", "jpg", "txt"), "b.tar": video_members("mp4", "jpg", "txt")}
    )

    with pytest.raises(UsageError, match="would leave jpg unused") as caught:
        prepare(root, request=PrepareRequest(split={"train": 1, "val": 1}))

    assert caught.value.code == "WDS221"
    assert "--sample-type VideoSample --field-map video=mp4,text=txt" in caught.value.hint
    assert "--sample-type CrudeSample" in caught.value.hint
    assert not Path(locate(root).config_path).exists()
    prepare(root, request=PrepareRequest(sample_type="VideoSample", field_map={"video": "mp4", "text": "txt"}))
    assert set(split_of(root).values()) == {"train", "val"}
    assert load_config(locate(root).config_path).split is not None


def test_accept_type_accepts_unsure_sample_type(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": video_members("mp4", "jpg", "txt")})

    report = prepare(root, request=PrepareRequest(accept_type=True))

    assert report.detection is not None
    assert report.detection.unread == ("jpg",)
    assert report.consents == ("accept_type",)
    assert load_config(locate(root).config_path).sample_type == "VideoSample"


@pytest.mark.parametrize(
    "consents", [PrepareRequest(allow_split_changes=True, accept_type=True), PrepareRequest(yes=True)]
)
def test_report_has_the_consents_that_were_necessary(tmp_path: Path, consents: PrepareRequest) -> None:
    root = a_dataset(tmp_path, {"a.tar": video_members("mp4", "jpg", "txt")})
    request = replace(consents, split={"train": 1, "val": 1}, split_by="sample")

    first = prepare(root, request=request)
    second = prepare(root, request=replace(request, split={"train": 1, "val": 3}, redetect=True))
    third = prepare(root, request=replace(request, split={"train": 1, "val": 3}))

    assert first.consents == ("accept_type",)
    assert second.consents == ("allow_split_changes", "accept_type")
    assert third.consents == ()


def test_videos_with_texts_are_video_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": video_members("mp4", "txt")})
    prepare(root)

    config = load_config(locate(root).config_path)
    assert (config.sample_type, config.field_map) == ("VideoSample", {"video": "mp4", "text": "txt"})


def test_prepare_notes_that_changed_shards_fit_type_instead_of_crude_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {f"{i}.bin": b"\0\1" for i in range(4)}})
    assert prepare(root).sample_type == "CrudeSample"
    rewrite_shard(f"{root}/a.tar", captions(0, 5))

    report = prepare(root)

    assert (report.detection, report.sample_type, report.index is not None) == (None, "CrudeSample", True)
    assert report.index is not None
    (note,) = (each for each in report.index.findings if each.code == "WDS261")
    assert note.severity == "note"
    assert "look like CaptioningSample: image=jpg,caption=txt" in note.message
    assert f"`wdsctl prepare {root} --redetect`" in note.message
    assert prepare(root, None, PrepareRequest(redetect=True)).field_map == {"image": "jpg", "caption": "txt"}


def test_prepare_notes_no_other_type_of_crude_samples_with_own_code(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {f"{i}.bin": b"\0\1" for i in range(4)}})
    prepare(root)
    authored = Path(locate(root).config_path)
    authored.write_text(authored.read_text() + "part_filter: [jpg]\n")
    rewrite_shard(f"{root}/a.tar", captions(0, 5))

    report = prepare(root)

    assert report.index is not None
    assert "WDS261" not in {each.code for each in report.index.findings}
