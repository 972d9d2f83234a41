from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.media.selection import MediaGuess, parse_media_selection


@pytest.mark.parametrize(
    ("selection", "name", "claim"),
    [
        ("auto", "1.jpg", "yes"),
        ("auto", "1.left.JPG", "yes"),
        ("auto", "1.json", "no"),
        ("auto", "1.bin", "maybe"),
        ("auto", "noext", "maybe"),
        ("content", "1.jpg", "maybe"),
        ("content", "1.json", "maybe"),
        ("jpg,mp4", "1.jpg", "yes"),
        ("jpg", "1.left.jpg", "yes"),
        (".jpg", "1.JPG", "yes"),
        ("jpg", "1.jpgx", "no"),
        ("jpg", "jpg", "no"),
        ("seg.png", "1.seg.png", "yes"),
        ("seg.png", "1.png", "no"),
        ("*.seg.png", "1.seg.png", "yes"),
        ("*.seg.png", "1.png", "no"),
        ("frame_*", "frame_01.xyz", "yes"),
        ("[ab].*", "c.jpg", "no"),
        ("mp4,*.seg.png", "1.mp4", "yes"),
    ],
)
def test_media_selection_guesses_by_name(selection: str, name: str, claim: MediaGuess) -> None:
    assert parse_media_selection(selection).guess_by_name(name) == claim


@pytest.mark.parametrize("text", ["", " ", "jpg,,mp4", "jpg,auto", "content,jpg", "a b", "a/*.png", "/jpg"])
def test_parse_media_selection_refuses_invalid_text_with_hint(text: str) -> None:
    with pytest.raises(UsageError, match="does not select parts") as caught:
        parse_media_selection(text)
    assert (caught.value.code, "content" in caught.value.hint) == ("WDS321", True)


@given(st.permutations(["jpg", "mp4", "*.seg.png", "a?"]))
def test_media_selection_text_is_canonical(words: list[str]) -> None:
    assert parse_media_selection(",".join([*words, words[0]])).text == "jpg,mp4,*.seg.png,a?"


@given(st.lists(st.sampled_from(["jpg", ".PNG", "seg.png", "*.x", "?.y"]), min_size=1))
def test_media_selection_text_round_trips(words: list[str]) -> None:
    selection = parse_media_selection(",".join(words))
    assert parse_media_selection(selection.text) == selection
