"""Which columns are still valid after parts are dropped, renamed or transcoded."""

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


def get_destination_spec(
    text: str, recipe: dict[str, Any], parts: tuple[str, ...] | None = None, stream: Stream = ""
) -> str:
    return destination_spec(parse_column_spec(text), parts, ConvertRequest(**recipe), stream).text


@pytest.mark.parametrize(
    ("text", "recipe", "stream", "expected"),
    [
        ("chars:txt", PLAIN, "", "chars:txt"),
        ("chars:txt", WEBP, "", "chars:txt"),
        ("chars:txt", RENAMES, "", "chars:caption"),
        ("json:txt:a.b", RENAMES, "", "json:caption:a.b"),
        ("media:txt:width", RENAMES, "", "media:caption:width"),
        ("media:png,txt:width", RENAMES, "", "media:png,caption:width"),
        ("media:jpg,png:width", WEBP, "", "media:webp:width"),
        ("size:jpg", WEBP, "", "size:webp"),
        ("chars:txt", POLY, "primary", "chars:txt"),
    ],
)
def test_built_in_column_follows_its_part(text: str, recipe: dict[str, Any], stream: Stream, expected: str) -> None:
    assert get_destination_spec(text, recipe, stream=stream) == expected


@pytest.mark.parametrize(
    ("text", "recipe", "stream", "reason", "suggested"),
    [
        ("chars:txt", DROPS, "", "the destination has no part txt", None),
        ("chars:jpg", WEBP, "", "is transcoded", "chars:webp"),
        ("size:jpg", POLY, "primary", "is in the media dataset", None),
        ("size:left.jpg", POLY, "primary", "is in the media dataset", None),
        ("chars:txt", LINES, "primary", "stores parts in its lines", None),
    ],
)
def test_built_in_column_is_dropped_if_its_part_changes(
    text: str, recipe: dict[str, Any], stream: Stream, reason: str, suggested: str | None
) -> None:
    with pytest.raises(ColumnDropped, match=reason) as caught:
        get_destination_spec(text, recipe, stream=stream)
    assert (caught.value.spec and caught.value.spec.text) == suggested


@pytest.mark.parametrize("stream", ["", "primary"])
@pytest.mark.parametrize("recipe", [PLAIN, POLY, LINES])
def test_function_without_declared_parts_is_kept_if_all_parts_are_kept(recipe: dict[str, Any], stream: Stream) -> None:
    assert get_destination_spec("m:f", recipe, None, stream) == "m:f"


@pytest.mark.parametrize("recipe", [DROPS, RENAMES, WEBP, {"parts": PartRules(keep=("txt",))}])
def test_function_without_declared_parts_is_dropped_if_any_part_changes(recipe: dict[str, Any]) -> None:
    with pytest.raises(ColumnDropped, match=r"m:f may read any part.*f\.parts"):
        get_destination_spec("m:f", recipe, None)


@pytest.mark.parametrize(
    ("recipe", "parts", "is_kept"),
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
def test_function_is_kept_only_if_declared_parts_are_unchanged(
    recipe: dict[str, Any], parts: tuple[str, ...], is_kept: bool
) -> None:
    if is_kept:
        assert get_destination_spec("m:f", recipe, parts) == "m:f"
    else:
        with pytest.raises(ColumnDropped, match="m:f reads the part") as caught:
            get_destination_spec("m:f", recipe, parts)
        assert caught.value.spec == parse_column_spec("m:f")
