from __future__ import annotations

from typing import Any

from wdsctl.core.checks import kinds
from wdsctl.loader.decoding import parts
from wdsctl.loader.decoding.limits import MAX_BYTES, MAX_PIXELS

LOADERS: dict[Any, str] = {
    parts.text: "text",
    parts.integer: "integer",
    parts.json_value: "json",
    parts.json_lines: "lines",
    parts.npy: "npy",
    parts.npz: "npz",
    parts.torch_file: "torch",
}


def test_names_mean_what_they_mean_to_the_loader() -> None:
    for name, (decode, _) in parts.DECODERS.items():
        assert kinds.kind_of(f"seg.{name.upper()}") == LOADERS.get(decode, "other"), name
    for kind, names in (("image", parts.IMAGES), ("video", parts.VIDEO), ("audio", parts.AUDIO)):
        assert {kinds.kind_of(name) for name in names} == {kind}
    known = {*parts.DECODERS, *parts.IMAGES, *parts.VIDEO, *parts.AUDIO}
    assert {name for names in kinds._NAMES.values() for name in names.split()} <= known


def test_limits_are_those_of_the_loader() -> None:
    from wdsctl.core.media import whole_image

    assert (kinds.MAX_BYTES, whole_image.MAX_PIXELS) == (MAX_BYTES, MAX_PIXELS)
