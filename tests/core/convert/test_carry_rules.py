"""Which columns hold after what is done to the parts."""

from __future__ import annotations

from typing import Any

import pytest

from wdsctl.core.columns.spec import parse_column_spec
from wdsctl.core.convert.carry import ColumnDropped, destination_spec
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.convert.request import ConvertRequest, Stream

PLAIN: dict[str, Any] = {}
DROPS: dict[str, Any] = {"parts": PartRules(drop=("txt",))}
RENAMES: dict[str, Any] = {"parts": PartRules(rename=(("txt", "caption"),))}
TAKES: dict[str, Any] = {"parts": PartRules(rename=(("json", "txt"),))}
WEBP: dict[str, Any] = {"image": parse_image("webp:80")}
POLY: dict[str, Any] = {"media": ("jpg",)}
LINES: dict[str, Any] = {"media": ("jpg",), "primary": "jsonl"}


def after(text: str, recipe: dict[str, Any], parts: tuple[str, ...] | None = None, stream: Stream = "") -> str:
    return destination_spec(parse_column_spec(text), parts, ConvertRequest(**recipe), stream).text


@pytest.mark.parametrize(
    ("text", "recipe", "stream", "becomes"),
    [
        ("chars:txt", PLAIN, "", "chars:txt"),
        ("chars:txt", WEBP, "", "chars:txt"),
        ("chars:txt", RENAMES, "", "chars:caption"),
        ("json:txt:a.b", RENAMES, "", "json:caption:a.b"),
        ("media:txt:width", RENAMES, "", "media:caption:width"),
        ("size:jpg", WEBP, "", "size:webp"),
        ("chars:txt", POLY, "primary", "chars:txt"),
    ],
)
def test_what_needs_no_code_follows_its_part(text: str, recipe: dict[str, Any], stream: Stream, becomes: str) -> None:
    assert after(text, recipe, stream=stream) == becomes


@pytest.mark.parametrize(
    ("text", "recipe", "stream", "why", "anew"),
    [
        ("chars:txt", DROPS, "", "the destination has no part txt", None),
        ("chars:jpg", WEBP, "", "is transcoded", "chars:webp"),
        ("size:jpg", POLY, "primary", "is in the media dataset", None),
        ("size:left.jpg", POLY, "primary", "is in the media dataset", None),
        ("chars:txt", LINES, "primary", "stores parts in its lines", None),
    ],
)
def test_what_needs_no_code_goes_no_further_than_its_part(
    text: str, recipe: dict[str, Any], stream: Stream, why: str, anew: str | None
) -> None:
    with pytest.raises(ColumnDropped, match=why) as caught:
        after(text, recipe, stream=stream)
    assert (caught.value.spec and caught.value.spec.text) == anew


@pytest.mark.parametrize("stream", ["", "primary"])
@pytest.mark.parametrize("recipe", [PLAIN, POLY, LINES])
def test_a_function_that_says_nothing_goes_along_when_all_parts_do(recipe: dict[str, Any], stream: Stream) -> None:
    assert after("m:f", recipe, None, stream) == "m:f"


@pytest.mark.parametrize("recipe", [DROPS, RENAMES, WEBP, {"parts": PartRules(keep=("txt",))}])
def test_a_function_that_says_nothing_may_look_at_any_part(recipe: dict[str, Any]) -> None:
    with pytest.raises(ColumnDropped, match=r"m:f may read any part.*f\.parts"):
        after("m:f", recipe, None)


@pytest.mark.parametrize(
    ("recipe", "parts", "holds"),
    [
        (WEBP, ("txt",), True),
        (WEBP, ("txt", "jpg"), False),
        (DROPS, ("jpg",), True),
        (DROPS, ("txt",), False),
        (RENAMES, ("txt",), False),
        (RENAMES, ("caption",), False),
        (TAKES, ("txt",), False),
        (DROPS, (), True),
    ],
)
def test_a_function_goes_along_with_the_parts_that_it_declares(
    recipe: dict[str, Any], parts: tuple[str, ...], holds: bool
) -> None:
    if holds:
        assert after("m:f", recipe, parts) == "m:f"
    else:
        with pytest.raises(ColumnDropped, match="m:f reads the part") as caught:
            after("m:f", recipe, parts)
        assert caught.value.spec == parse_column_spec("m:f")
