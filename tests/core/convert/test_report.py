"""What a conversion says of splits that do not go along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.build import some_shards
from tests.core.conversions import to
from wdsctl.core.convert.parts import ImageTranscodeOptions, PartRules
from wdsctl.core.errors import InputError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def prepared(root: Path, *, first: int = 0, **split: float) -> Path:
    prepare(
        some_shards(root, 2, 5, first=first),
        None,
        PrepareRequest(take_unsure=True, split=split or None, split_by="sample"),
    )
    return root


@pytest.mark.parametrize("options", [{"compress": "gz"}, {"to_format": "jsonl"}])
def test_splits_that_a_form_has_no_room_for_are_told_with_their_sizes(tmp_path: Path, options: Any) -> None:
    source = prepared(tmp_path / "a", train=8, val=2)

    made = to(tmp_path / "b", source, **options)
    again = to(tmp_path / "b", source, **options)
    apart = to(tmp_path / "c", source, apart="split", **options)
    foreseen = to(tmp_path / "d", source, dry_run=True, **options)

    told = "the destination has no splits (train 8, val 2): pass `--apart split` to write one folder per split"
    assert told in made.notes
    assert told in again.notes
    assert told in foreseen.notes
    assert told not in apart.notes


def test_one_split_of_all_samples_is_no_loss(tmp_path: Path) -> None:
    assert to(tmp_path / "b", prepared(tmp_path / "a"), to_format="jsonl").notes == ()


def test_samples_in_no_split_beside_others_that_are_in_one_are_told(tmp_path: Path) -> None:
    one = prepared(tmp_path / "a", train=8, val=2)
    some_shards(tmp_path / "raw", 1, 4, first=9)

    report = to(tmp_path / "both", one, tmp_path / "raw")

    assert report.notes == ("4 of 14 samples are in no split, as in their source; the others: train 8, val 2",)
    assert to(tmp_path / "again", one).notes == ()


def test_rules_for_parts_that_no_sample_has_are_told(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")

    made = to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "tx")))
    again = to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "tx")))

    assert made.notes == again.notes == ("no part matches --parts tx",)


def test_media_that_no_sample_has_are_told(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")
    asked = ImageTranscodeOptions("png", parts=("jpg", "seg.jpg"))

    made = to(tmp_path / "b", source, image=asked, dry_run=True)
    called = PartRules(rename=(("jpg", "a.jpg"),))
    renamed = to(tmp_path / "c", source, image=ImageTranscodeOptions("png"), parts=called, dry_run=True)
    apart = to(tmp_path / "d", source, layout="polylithic", media=("jpg", "wav"))

    assert made.notes == ("no part matches --image-parts seg.jpg",)
    assert renamed.notes == ("no part matches --image (jpg, png, ...)",)
    assert apart.notes[-1] == "no part matches --media wav"


def test_named_media_of_which_no_sample_has_any_end_a_conversion_before_it_writes(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")

    with pytest.raises(InputError, match="no sample has a part"):
        to(tmp_path / "b", source, image=ImageTranscodeOptions("png", parts=("jpag",)))

    assert not (tmp_path / "b").exists()
