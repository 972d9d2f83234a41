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
def test_every_rule_ends_keys_in_its_place(
    name: str, first: tuple[str, str], last: tuple[str, str], known: tuple[str, str]
) -> None:
    assert [split_name_by_rule(name, rule) for rule in KEY_RULES] == [first, last, known]


@given(NAMES, st.sampled_from(KEY_RULES))
def test_key_and_part_are_the_name_again(name: str, rule: KeyRuleName) -> None:
    split = split_name_by_rule(name, rule)

    assert split is None or f"{split[0]}.{split[1]}" == name


@given(NAMES, st.sampled_from(KEY_RULES))
def test_names_in_shards_are_split_alike_by_every_rule_and_by_other_readers(name: str, rule: KeyRuleName) -> None:
    split = split_name_by_rule(name, rule)
    if split is None or split[1].startswith("."):
        return
    member = f"{dotless_key(split[0])}.{split[1]}"

    assert split_name(member) == split_name_by_rule(member, rule) == (dotless_key(split[0]), split[1])


def test_only_dots_of_the_file_name_are_replaced() -> None:
    assert dotless_key("v1.2/IMG_2024.01.07") == "v1.2/IMG_2024_01_07"
    assert dotless_key("_.a..b") == "_-a--b"  # `__a__b` would be passed over


@pytest.mark.parametrize("name", [".DS_Store", "README", "b.", "__meta__.json", "a/.b.c"])
def test_a_name_without_a_key_has_none_by_any_rule(name: str) -> None:
    assert {split_name_by_rule(name, rule) for rule in KEY_RULES} == {None}


def test_a_file_name_is_looked_up_as_shards_may_have_it() -> None:
    assert possible_keys("7.jpg") == (("7", "jpg"),)
    assert possible_keys("IMG.01.jpg") == (("IMG", "01.jpg"), ("IMG_01", "jpg"))


def test_a_rule_is_known_by_its_name() -> None:
    assert (parse_key_rule("last-dot"), parse_key_rule("second-dot")) == ("last-dot", None)


def test_the_known_words_stay_as_they_are() -> None:
    """Another word renames samples of datasets that keep the rule known-extension: that is a decision of its own."""
    assert blake2b(" ".join(sorted(KNOWN_PART_WORDS)).encode(), digest_size=8).hexdigest() == "b39fb52d5feff3e4"


def test_a_part_may_be_all_that_follows_the_first_dot() -> None:
    assert split_part("jpg", "last-dot") == ("", "jpg")
