from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.samples.naming import (
    KEY_RULES,
    KNOWN_PART_WORDS,
    KeyRuleName,
    dotless_key,
    parse_key_rule,
    possible_keys,
    split_name,
    split_name_by_rule,
    split_part,
)

NAMES = st.from_regex(r"(?:[a-c.]{0,3}/)?[ab_][ab.]{0,4}\.(?:jpg|seg\.png|tar\.gz|1\.txt|en\.txt)", fullmatch=True)


@pytest.mark.parametrize(
    ("name", "first", "last", "known"),
    [
        ("a/b/7.seg.png", ("a/b/7", "seg.png"), ("a/b/7.seg", "png"), ("a/b/7", "seg.png")),
        ("IMG_2024.01.07.jpg", ("IMG_2024", "01.07.jpg"), ("IMG_2024.01.07", "jpg"), ("IMG_2024.01.07", "jpg")),
        ("x.2.tar.gz", ("x", "2.tar.gz"), ("x.2.tar", "gz"), ("x.2", "tar.gz")),
        ("a.b/c.d.SEG.PNG", ("a.b/c", "d.SEG.PNG"), ("a.b/c.d.SEG", "PNG"), ("a.b/c.d", "SEG.PNG")),
        ("a..jpg", ("a", ".jpg"), ("a", ".jpg"), ("a", ".jpg")),
        ("a.b.", ("a", "b."), ("a", "b."), ("a", "b.")),
    ],
)
def test_split_name_by_rule_ends_key_by_rule(
    name: str, first: tuple[str, str], last: tuple[str, str], known: tuple[str, str]
) -> None:
    assert [split_name_by_rule(name, rule) for rule in KEY_RULES] == [first, last, known]


@given(NAMES, st.sampled_from(KEY_RULES))
def test_key_and_part_join_to_name(name: str, rule: KeyRuleName) -> None:
    split = split_name_by_rule(name, rule)

    assert split is None or f"{split[0]}.{split[1]}" == name


@given(NAMES, st.sampled_from(KEY_RULES))
def test_dotless_keys_are_split_identically_by_every_rule(name: str, rule: KeyRuleName) -> None:
    split = split_name_by_rule(name, rule)
    if split is None or split[1].startswith("."):
        return
    member = f"{dotless_key(split[0])}.{split[1]}"

    assert split_name(member) == split_name_by_rule(member, rule) == (dotless_key(split[0]), split[1])


def test_dotless_key_replaces_only_dots_of_file_name() -> None:
    assert dotless_key("v1.2/IMG_2024.01.07") == "v1.2/IMG_2024_01_07"
    assert dotless_key("_.a..b") == "_-a--b"  # `__a__b` would be skipped as metadata


@pytest.mark.parametrize("name", [".DS_Store", "README", "b.", "__meta__.json", "./__meta__.json", "a/.b.c"])
def test_names_without_key_have_none_by_every_rule(name: str) -> None:
    assert {split_name_by_rule(name, rule) for rule in KEY_RULES} == {None}


def test_possible_keys_include_dotless_key() -> None:
    assert possible_keys("7.jpg") == (("7", "jpg"),)
    assert possible_keys("IMG.01.jpg") == (("IMG", "01.jpg"), ("IMG_01", "jpg"))


def test_parse_key_rule_accepts_only_known_names() -> None:
    assert (parse_key_rule("last-dot"), parse_key_rule("second-dot")) == ("last-dot", None)


def test_known_part_words_are_frozen() -> None:
    """A new word renames samples of datasets that use the rule known-extension, so it needs a decision."""
    assert blake2b(" ".join(sorted(KNOWN_PART_WORDS)).encode(), digest_size=8).hexdigest() == "b39fb52d5feff3e4"


def test_split_part_of_plain_extension_has_no_prefix() -> None:
    assert split_part("jpg", "last-dot") == ("", "jpg")
