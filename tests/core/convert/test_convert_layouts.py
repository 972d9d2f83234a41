"""Round trips: the polylithic layout and back, and shards made of converted shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.build import a_dataset, an_image, some_shards
from tests.core.conversions import a_prepared_dataset, content, convert_to, files, keys, members, splits
from wdsctl.core.convert.parts import parse_image

QUICK = (Phase.explicit, Phase.generate)  # an example takes tenths of a second, so shrinking is too slow
SLOW_FOLDERS = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_polylithic_layout_and_back_gives_same_files(tmp_path: Path, primary: Any) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    convert_to(tmp_path / "whole", source)
    convert_to(tmp_path / "poly", source, layout="polylithic", media=("jpg",), primary=primary, shard_samples=13)
    convert_to(tmp_path / "back", tmp_path / "poly", layout="monolithic")

    assert files(tmp_path / "back") == files(tmp_path / "whole")
    assert splits(tmp_path / "back") == splits(tmp_path / "a")
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "poly" / "media")} == {"jpg"}
    assert "jpg" not in {name.partition(".")[2] for name, _ in members(tmp_path / "poly" / "primary")}


def test_sample_with_failed_media_is_missing_in_primary(tmp_path: Path) -> None:
    shard = {
        f"{i}.{p}": d for i in range(3) for p, d in (("png", an_image("PNG") if i != 1 else b"bad"), ("txt", b"t"))
    }
    source = a_dataset(tmp_path / "a", {"0.tar": shard})

    report = convert_to(tmp_path / "c", source, layout="polylithic", media=("png",), image=parse_image("webp"))

    assert keys(tmp_path / "c" / "primary") == keys(tmp_path / "c" / "media") == ["0", "2"]
    assert report.failed == 1
    references = json.loads(dict(members(tmp_path / "c" / "primary"))["0.refs.json"])
    assert references == {"webp": "0.webp"}


a_part = st.sampled_from(["jpg", "txt", "json", "seg.png", "left.mp4", "cls"])
some_data = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
        max_leaves=5,
    ).flatmap(
        lambda value: st.sampled_from(
            [
                json.dumps(value).encode(),
                json.dumps(value, separators=(",", ":")).encode() + b"\n",
                json.dumps(value, indent=2, ensure_ascii=True).encode(),
            ]
        )
    ),
)
some_samples = st.dictionaries(
    st.text("abcü /-'\"", min_size=1, max_size=6).map(lambda t: f"k{t.strip('/ ')}".replace("//", "/").rstrip("/ ")),
    st.dictionaries(a_part, some_data, min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


@settings(max_examples=6, deadline=None, phases=QUICK, suppress_health_check=SLOW_FOLDERS)
@given(samples=some_samples, primary=st.sampled_from(["tar", "jsonl"]), size=st.integers(1, 5))
def test_mono_to_poly_to_mono_is_lossless(
    tmp_path_factory: pytest.TempPathFactory, samples: dict[str, dict[str, bytes]], primary: Any, size: int
) -> None:
    root = tmp_path_factory.mktemp("round")
    samples |= {"last": {"jpg": b"there is always one"}}
    shard = {f"{key}.{part}": data for key, parts in samples.items() for part, data in sorted(parts.items())}
    source = a_dataset(root / "a", {"0.tar": shard})

    convert_to(root / "mono", source)
    convert_to(
        root / "poly", root / "mono", layout="polylithic", media=("jpg", "mp4"), primary=primary, shard_samples=size
    )
    convert_to(root / "back", root / "poly")

    assert files(root / "back") == files(root / "mono")
    assert content(root / "back") == shard


@settings(max_examples=4, deadline=None, phases=QUICK, suppress_health_check=SLOW_FOLDERS)
@given(first=st.integers(1, 9), second=st.integers(1, 9), seed=st.integers(0, 99))
def test_repeated_resharding_equals_direct_resharding(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int, seed: int
) -> None:
    root = tmp_path_factory.mktemp("again")
    source = some_shards(root / "a", 2, 6)
    convert_to(root / "b", source, shard_samples=first, order="shuffle", seed=seed)
    convert_to(root / "c", root / "b", shard_samples=second, order="key")
    convert_to(root / "d", source, shard_samples=second, order="key")

    assert files(root / "c") == files(root / "d")
