from __future__ import annotations

import pytest

from wdsctl.core.convert.parts import (
    PartRules,
    check_part_rules,
    find_renamed_parts,
    is_separated_part,
    list_unmatched_options,
    parse_renames,
    renamed_part_name,
)
from wdsctl.core.errors import UsageError


def test_part_rules_keep_drop_and_rename() -> None:
    rules = PartRules(keep=("jpg", "*.png"), drop=("mask.png",), rename=(("jpg", "image.jpg"),))
    names = ["jpg", "seg.png", "mask.png", "txt"]
    assert [renamed_part_name(rules, name) for name in names] == ["image.jpg", "seg.png", None, None]


def test_is_separated_part_matches_whole_name_or_extension() -> None:
    names = ["mp4", "left.mp4", "mp4.json", "wav"]
    assert [is_separated_part(name, ("mp4",)) for name in names] == [True, True, False, False]
    assert [is_separated_part(name, ("left.*",)) for name in names] == [False, True, False, False]


def test_parse_renames_accepts_lists() -> None:
    assert parse_renames(["png=image.png,.a=b", "c=d"]) == (("png", "image.png"), ("a", "b"), ("c", "d"))


@pytest.mark.parametrize("text", ["png", "=a", "a=", "a=b/c", "a=b,a=c"])
def test_invalid_rename_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_renames([text])


def test_invalid_part_name_is_refused() -> None:
    with pytest.raises(UsageError):
        check_part_rules(PartRules(keep=("a/b",)))


def test_find_renamed_parts_reports_collisions_after_renames() -> None:
    rules = PartRules(drop=("npy",), rename=(("txt", "jpg"), ("cls", "npy"), ("a", "b"), ("b", "a")))

    assert find_renamed_parts(rules, ("jpg", "txt")) == (("txt", True),)
    assert find_renamed_parts(rules, ("cls", "npy", "txt")) == (("cls", False), ("txt", False))
    assert find_renamed_parts(rules, ("a", "b", "jpg")) == (("a", False), ("b", False))


def test_rules_without_matching_part_are_listed() -> None:
    rules = PartRules(keep=("jpg", "tx", "*.png"), drop=("jso",), rename=(("jpg", "image"), ("nope", "x")))

    assert list_unmatched_options(["jpg", "seg.png", "json"], rules=rules) == [
        "--parts tx",
        "--drop-parts jso",
        "--rename-part nope",
    ]
