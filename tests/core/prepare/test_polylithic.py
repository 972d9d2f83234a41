"""`prepare` of rows that share files: primary and media, a sample type, splits and files for training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.build import a_dataset, an_image
from tests.core.conversions import files, members
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.index.write_dataset_yaml import SampleTypeRequest
from wdsctl.core.prepare.polylithic import resolve_polylithic_config
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.samples.detect import Detection
from wdsctl.core.split.leaks import find_leaks

OPTIONS: dict[str, Any] = {"format_options": {"key": "id"}, "yes": True}


@pytest.fixture
def low_repeat_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the number of repeated bytes from which `prepare` chooses the polylithic layout."""
    monkeypatch.setattr("wdsctl.core.convert.sharing.MIN_REPEATED_BYTES", 1000)


def questions(root: Path, pictures: int = 5, each: int = 4) -> str:
    root.mkdir()
    for i in range(pictures):
        (root / f"{i}.png").write_bytes(an_image("PNG") + bytes(i))
    rows = [
        {"id": f"{i}-{k}", "image": f"{i}.png", "question": f"what {k}?", "answer": f"this {i}"}
        for k in range(each)
        for i in range(pictures)
    ]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(root / "rows.jsonl")


def run(source: str, dest: Path | None, **options: Any) -> PrepareReport:
    return prepare(source, None if dest is None else str(dest), PrepareRequest(**{**OPTIONS, **options}))


def split_sizes(root: Path) -> dict[str, int]:
    with Catalog.open(locate(str(root)).catalog_path) as catalog:
        return {split.name: split.samples for split in catalog.splits()}


@pytest.mark.usefixtures("low_repeat_threshold")
def test_shared_files_are_stored_once_by_default_and_reported(tmp_path: Path) -> None:
    report = run(questions(tmp_path / "a"), tmp_path / "d", split={"train": 8, "val": 2}, split_by="sample")

    assert report.conversion is not None
    assert report.conversion.layout.startswith("polylithic layout: storing 15 parts as 5 files, each once, saves")
    assert "--layout monolithic" in report.conversion.layout
    assert len(members(tmp_path / "d" / "media")) == 5
    assert (report.dest, report.primary) == (str(tmp_path / "d"), str(tmp_path / "d" / "primary"))
    assert report.sample_type == "VQASample"
    assert load_config(str(tmp_path / "d" / "monolithic.yaml")).field_map["image"] == "png"
    assert split_sizes(tmp_path / "d" / "primary") == {"train": 16, "val": 4}
    assert '"val"' in (tmp_path / "d" / "blend.yaml").read_text()
    assert "VQASample" in (tmp_path / "d" / "cook.py").read_text()


@pytest.mark.usefixtures("low_repeat_threshold")
def test_type_is_detected_from_the_first_bytes_of_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = questions(tmp_path / "a")
    (tmp_path / "a" / "0.png").write_bytes(an_image("PNG") + bytes(1 << 20))
    run(source, tmp_path / "d")
    monkeypatch.setattr("wdsctl.core.importers.polylithic.LARGE_PART_BYTES", 1000)
    read_all = vars(FilePart)["data"].fget
    monkeypatch.setattr(FilePart, "data", property(lambda part: part.size < 1000 and read_all(part)))

    detection, _, _ = resolve_polylithic_config(
        str(tmp_path / "d"), 20, SampleTypeRequest("VQASample"), accept_type=True
    )

    assert detection is not None
    assert detection.sample_type == "VQASample"


@pytest.mark.usefixtures("low_repeat_threshold")
def test_shared_files_in_two_splits_are_leaks(tmp_path: Path) -> None:
    run(questions(tmp_path / "a"), tmp_path / "d", split={"train": 8, "val": 2}, split_by="sample")

    report = find_leaks(str(tmp_path / "d" / "primary"))

    assert report.parts == ("refs.json",)
    assert {(count.split, count.other, count.samples) for count in report.counts} == {
        ("train", "val", 12),
        ("val", "train", 4),
    }


@pytest.mark.parametrize("form", ["tar", "jsonl"])
def test_find_leaks_refuses_media_that_are_not_shared(tmp_path: Path, form: Literal["tar", "jsonl"]) -> None:
    run(questions(tmp_path / "a"), tmp_path / "d", split={"train": 8, "val": 2}, split_by="sample")
    apart = ConvertRequest(layout="polylithic", media=("png",), primary=form)
    convert([str(tmp_path / "d")], str(tmp_path / "e"), apart)

    with pytest.raises(UsageError, match="does not compare media"):
        find_leaks(str(tmp_path / "e" / "primary"))
    assert find_leaks(str(tmp_path / "e" / "primary"), ["json"]).counts == ()


def test_few_repeated_bytes_give_monolithic_layout_without_message(tmp_path: Path) -> None:
    report = run(questions(tmp_path / "a"), tmp_path / "d")

    assert report.conversion is not None
    assert (report.conversion.layout, report.primary) == ("", "")
    assert len(members(tmp_path / "d")) == 40


@pytest.mark.usefixtures("low_repeat_threshold")
def test_layout_option_selects_layout(tmp_path: Path) -> None:
    source = questions(tmp_path / "a")
    run(source, tmp_path / "mono", layout="monolithic")
    run(source, tmp_path / "auto")
    run(source, tmp_path / "poly", layout="polylithic")

    assert len(members(tmp_path / "mono")) == 40
    assert files(tmp_path / "auto") == files(tmp_path / "poly")


@pytest.mark.usefixtures("low_repeat_threshold")
def test_second_run_changes_nothing_and_keeps_user_edits(tmp_path: Path) -> None:
    source = questions(tmp_path / "a")
    run(source, tmp_path / "d", split={"train": 8, "val": 2})
    (tmp_path / "d" / "cook.py").write_text("# mine\n")
    before = files(tmp_path / "d")

    again = run(source, tmp_path / "d")
    in_place = run(str(tmp_path / "d"), None, format_options={})

    assert again.up_to_date
    assert in_place.up_to_date
    assert files(tmp_path / "d") == before


@pytest.mark.usefixtures("low_repeat_threshold")
def test_second_run_indexes_changed_media(tmp_path: Path) -> None:
    run(questions(tmp_path / "a"), tmp_path / "d")
    media = a_dataset(tmp_path / "d" / "media", {"more.tar": {"new.png": an_image("PNG")}})

    assert not run(str(tmp_path / "d"), None, format_options={}).up_to_date
    with Catalog.open(locate(media).catalog_path) as catalog:
        assert "more.tar" in [shard.path for shard in catalog.shards()]
    assert run(str(tmp_path / "d"), None, format_options={}).up_to_date

    (tmp_path / "d" / "media" / "more.tar").write_bytes(b"no tar")
    report = run(str(tmp_path / "d"), None, format_options={})
    assert report.index is not None
    assert ("error", "media/more.tar") in {(each.severity, each.shard) for each in report.index.findings}
    (tmp_path / "d" / "media" / "more.tar").unlink()
    with pytest.raises(InputError) as caught:
        run(str(tmp_path / "d"), None, format_options={})
    assert caught.value.code == "WDS306"


@pytest.mark.usefixtures("low_repeat_threshold")
def test_fields_that_some_samples_lack_are_optional(tmp_path: Path) -> None:
    source = Path(questions(tmp_path / "a"))
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    for row in rows[::3]:
        del row["answer"]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config, cooker = tmp_path / "d" / "monolithic.yaml", tmp_path / "d" / "cook.py"

    run(str(source), tmp_path / "d")
    detected = load_config(str(config))
    run(str(tmp_path / "d"), None, format_options={}, sample_type="VQASample", field_map=detected.field_map)

    assert detected.optional == load_config(str(config)).optional == ("answers",)
    assert "optional=True" in cooker.read_text()


@pytest.mark.usefixtures("low_repeat_threshold")
@pytest.mark.parametrize("name", ["resolve_polylithic_config", "write_training_files"])
def test_prepare_continues_after_stop_before_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = questions(tmp_path / "a")
    run(source, tmp_path / "whole", split={"train": 8, "val": 2})

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"wdsctl.core.prepare.prepare.{name}", stop)
        with pytest.raises(KeyboardInterrupt):
            run(source, tmp_path / "d", split={"train": 8, "val": 2})
    run(source, tmp_path / "d", split={"train": 8, "val": 2})

    assert files(tmp_path / "d") == files(tmp_path / "whole")


@pytest.mark.usefixtures("low_repeat_threshold")
def test_media_facts_are_read_for_media_dataset(tmp_path: Path) -> None:
    run(questions(tmp_path / "a"), tmp_path / "d", index=IndexRequest(media=MediaRequest(selection="auto")))

    with Catalog.open(locate(str(tmp_path / "d" / "media")).catalog_path) as catalog:
        assert catalog.media_settings() is not None


@pytest.mark.usefixtures("low_repeat_threshold")
def test_sample_type_can_be_set_by_later_run(tmp_path: Path) -> None:
    run(questions(tmp_path / "a"), tmp_path / "d")

    fields = {"image": "png", "caption": "json[answer]"}
    report = run(str(tmp_path / "d"), None, format_options={}, sample_type="CaptioningSample", field_map=fields)

    assert report.sample_type == "CaptioningSample"
    assert load_config(str(tmp_path / "d" / "monolithic.yaml")).field_map == fields
    assert "CaptioningSample" in (tmp_path / "d" / "cook.py").read_text()


@pytest.mark.usefixtures("low_repeat_threshold")
def test_unsure_sample_type_is_refused_after_all_other_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = questions(tmp_path / "a")
    monkeypatch.setattr(Detection, "is_sure", property(lambda _: False))

    with pytest.raises(UsageError) as caught:
        run(source, tmp_path / "d", yes=False)

    assert caught.value.code == "WDS221"
    assert caught.value.hint.startswith("to accept this sample type, run `wdsctl prepare ")
    assert f" {tmp_path / 'd'} --sample-type VQASample" in caught.value.hint
    assert split_sizes(tmp_path / "d" / "primary") == {"train": 20}
    assert not (tmp_path / "d" / "monolithic.yaml").exists()


@pytest.mark.usefixtures("low_repeat_threshold")
def test_dry_run_reports_datasets_and_layout(tmp_path: Path) -> None:
    report = run(questions(tmp_path / "a"), tmp_path / "d", index=IndexRequest(dry_run=True))

    assert report.conversion is not None
    assert [Path(each.path).name for each in report.conversion.datasets] == ["media", "primary"]
    assert report.conversion.layout.startswith("polylithic")
    assert not (tmp_path / "d").exists()


def test_layout_option_is_refused_for_raw_files(tmp_path: Path) -> None:
    questions(tmp_path / "a")
    (tmp_path / "a" / "rows.jsonl").unlink()

    with pytest.raises(UsageError, match="raw files"):
        run(str(tmp_path / "a"), tmp_path / "d", layout="polylithic", format_options={}, from_format="folder")


@pytest.mark.usefixtures("low_repeat_threshold")
def test_option_sets_what_labels_of_complete_samples_are_drawn_on(tmp_path: Path) -> None:
    source, dest = questions(tmp_path / "a"), tmp_path / "d"
    run(source, dest, drawn_on="stored")
    assert load_config(str(dest / "monolithic.yaml")).drawn_on == "stored"

    prepare(str(dest), None, PrepareRequest(drawn_on="shown"))

    assert load_config(str(dest / "monolithic.yaml")).drawn_on == "shown"
    assert load_config(locate(str(dest / "primary")).config_path).drawn_on == ""
