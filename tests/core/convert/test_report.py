"""Notes of a conversion about splits that it cannot copy and about options that match nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.build import some_shards
from tests.core.conversions import convert_to
from wdsctl.core.convert.parts import ImageTranscodeOptions, PartRules
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def make_prepared(root: Path, *, first: int = 0, **split: float) -> Path:
    prepare(
        some_shards(root, 2, 5, first=first),
        None,
        PrepareRequest(accept_type=True, split=split or None, split_by="sample" if split else "auto"),
    )
    return root


@pytest.mark.parametrize("options", [{"compress": "gz"}, {"to_format": "jsonl"}])
def test_splits_that_format_cannot_store_are_reported_with_sizes(tmp_path: Path, options: Any) -> None:
    source = make_prepared(tmp_path / "a", train=8, val=2)

    report = convert_to(tmp_path / "b", source, **options)
    repeated = convert_to(tmp_path / "b", source, **options)
    apart = convert_to(tmp_path / "c", source, apart="split", **options)
    planned = convert_to(tmp_path / "d", source, dry_run=True, **options)

    note = "the destination has no splits (train 8, val 2): pass `--apart split` to write one folder per split"
    assert note in report.notes
    assert note in repeated.notes
    assert note in planned.notes
    assert note not in apart.notes


def test_single_split_of_all_samples_is_not_reported(tmp_path: Path) -> None:
    assert convert_to(tmp_path / "b", make_prepared(tmp_path / "a"), to_format="jsonl").notes == ()


def test_samples_without_split_are_reported_if_others_have_one(tmp_path: Path) -> None:
    one = make_prepared(tmp_path / "a", train=8, val=2)
    some_shards(tmp_path / "raw", 1, 4, first=9)

    report = convert_to(tmp_path / "both", one, tmp_path / "raw")

    assert report.notes == ("4 of 14 samples are in no split, as in their source; the others: train 8, val 2",)
    assert convert_to(tmp_path / "again", one).notes == ()


def test_settings_of_dataset_yaml_that_are_not_copied_are_reported(tmp_path: Path) -> None:
    one, two = make_prepared(tmp_path / "a"), make_prepared(tmp_path / "b", first=50)
    assert convert_to(tmp_path / "same", one, two).notes == ()
    authored = Path(locate(str(two)).config_path)
    authored.write_text(authored.read_text().replace("subflavors: {}", "subflavors: {mine: 1}"))

    report = convert_to(tmp_path / "both", one, two)

    assert report.notes == ("subflavors of dataset.yaml are not copied: the sources have different ones",)
    assert convert_to(tmp_path / "c", one, two, dry_run=True).notes == report.notes
    assert convert_to(tmp_path / "d", one, two, to_format="jsonl").notes == ()
    authored.write_text("sample_type: CrudeSample\nsubflavors: {mine: 1}\n")
    notes = convert_to(tmp_path / "f", one, two).notes
    assert "their sample types, field maps and subflavors are not copied" in notes[0]
    authored.write_text("sample_type: ImageSample\nsample_loader: code.py:load\npart_filter: [jpg]\n")
    assert "sample_loader of dataset.yaml is not copied" in convert_to(tmp_path / "e", two).notes[0]


def test_part_rules_that_match_no_part_are_reported(tmp_path: Path) -> None:
    source = make_prepared(tmp_path / "a")

    report = convert_to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "tx")))
    repeated = convert_to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "tx")))

    assert report.notes == repeated.notes == ("no part matches --parts tx",)


def test_media_options_that_match_no_part_are_reported(tmp_path: Path) -> None:
    source = make_prepared(tmp_path / "a")
    image_options = ImageTranscodeOptions("png", parts=("jpg", "seg.jpg"))

    report = convert_to(tmp_path / "b", source, image=image_options, dry_run=True)
    part_rules = PartRules(rename=(("jpg", "a.jpg"),))
    none = convert_to(tmp_path / "c", source, image=ImageTranscodeOptions("png"), parts=PartRules(drop=("jpg",)))
    with pytest.raises(InputError) as refused:
        convert_to(tmp_path / "e", source, image=ImageTranscodeOptions("", max_side=9), parts=part_rules)
    apart = convert_to(tmp_path / "d", source, layout="polylithic", media=("jpg", "wav"))

    assert report.notes == ("no part matches --image-parts seg.jpg",)
    assert none.notes == ("no part matches --image (jpg, png, ...)",)
    assert (refused.value.code, refused.value.where) == ("WDS003", "--max-side")
    assert "`--image-parts a.jpg`" in refused.value.hint
    assert apart.notes[-1] == "no part matches --media wav"


def test_named_media_without_any_sample_are_refused_before_writing(tmp_path: Path) -> None:
    source = make_prepared(tmp_path / "a")

    with pytest.raises(InputError, match="no sample has a part"):
        convert_to(tmp_path / "b", source, image=ImageTranscodeOptions("png", parts=("jpag",)))

    assert not (tmp_path / "b").exists()
