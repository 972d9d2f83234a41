from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.dataset import shard_names as shard_names_module
from wdsctl.core.dataset.shard_names import expand_braces, has_braces
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a-{008..011}.tar", ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]),
        ("{train,val}/{0..1}", ["train/0", "train/1", "val/0", "val/1"]),
        ("{a,b{1..2}}", ["a", "b1", "a", "b2"]),
        ("{0..10..5}", ["0", "5", "10"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{x}", ["{x}"]),
        ("plain", ["plain"]),
        ("{0..1", ["{0..1"]),
        ("{,.gz}", ["", ".gz"]),
    ],
)
def test_expand_braces_expands_ranges_and_lists_like_shells(text: str, names: list[str]) -> None:
    assert sorted(expand_braces(text)) == sorted(names)
    assert has_braces(text) == (names != [text])


@given(st.integers(0, 10**7), st.integers(0, 300), st.integers(1, 9))
def test_range_expands_to_every_number_with_width_of_its_ends(first: int, count: int, width: int) -> None:
    first_text = f"{first:0{width}d}"
    names = expand_braces(f"s-{{{first_text}..{first + count:0{width}d}}}")

    assert [int(name[2:]) for name in names] == list(range(first, first + count + 1))
    assert min(map(len, names)) >= len(first_text) + 2


def test_too_many_names_are_refused_before_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_names_module, "MAX_NAMES", 1_000)
    with pytest.raises(UsageError, match="more than 1,000 names"):
        expand_braces("{0..99999999999}-{0..99999999999}")


@pytest.mark.parametrize("text", ["{a,b}" * 2000, "{1.." + "9" * 5000 + "}"])
def test_unlimited_braces_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"cannot expand|has more than"):
        expand_braces(text)


@pytest.mark.parametrize("text", ["{1..1}" * 65 + "{0..999999}", "{a," * 65 + "}" * 65])
def test_more_than_64_braces_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="more than 64 braces"):
        expand_braces(text)
    assert expand_braces("{" * 70) == ["{" * 70]


def test_names_with_too_many_characters_are_refused_before_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_names_module, "MAX_TOTAL_CHARS", 10_000)
    with pytest.raises(UsageError, match="more than 10,000 characters in total") as caught:
        expand_braces("A" * 1_000 + "{0..999999}")
    assert caught.value.message.startswith("'AAA")
