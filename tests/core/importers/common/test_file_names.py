"""File names for samples with arbitrary keys."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.importers.common.files import MAX_NAME_BYTES, part_extension, part_path

_keys = st.text(st.sampled_from("ab./\0é %"), max_size=12) | st.text(max_size=400)


@given(_keys, st.sampled_from(["jpg", "seg.png", "..", "x" * 300]))
def test_part_path_stays_below_folder(key: str, part: str) -> None:
    name = part_path(key, part)

    assert os.path.normpath(f"/d/{name}") == f"/d/{name}"
    assert "\0" not in name
    assert all(
        len(os.fsencode(segment)) <= MAX_NAME_BYTES for segment in name.encode("utf-8", "replace").decode().split("/")
    )


@given(
    st.lists(
        st.lists(st.sampled_from([*"ab./%2E", "%2E", "%25"]), min_size=1, max_size=6).map("".join),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_part_path_is_unique_per_key(keys: list[str]) -> None:
    assert part_path(keys[0], "jpg") != part_path(keys[1], "jpg")


def test_part_extension_is_last_component_in_lower_case() -> None:
    assert [part_extension(part) for part in ("jpg", "seg.PNG", "")] == ["jpg", "png", ""]
