"""For every exporter: its importer reads back the same samples, byte for byte."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.formats import Samples, read_samples, write_unit
from wdsctl.core.importers.common.files import part_path

REVERSIBLE = ("jsonl", "csv", "tsv", "parquet", "mds", "litdata")
READ_AS = {"tsv": "csv"}
#: LitData parses JSON itself, so parts that it could not parse must be stored as bytes.
JSON_PARTS = {"json", "meta.json"}


_letters = st.characters(codec="utf-8", exclude_characters="/\0.", exclude_categories=["Cs"])
_segments = st.text(_letters, min_size=1, max_size=8).filter(lambda text: not text.startswith("__"))
_keys = st.lists(_segments, min_size=1, max_size=3).map("/".join)
_texts = st.text(st.characters(codec="utf-8"), max_size=20).map(str.encode)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
).flatmap(lambda value: st.sampled_from([json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)]))
_parts = st.fixed_dictionaries(
    {},
    optional={
        "jpg": st.binary(max_size=20),
        "seg.png": st.binary(max_size=20),
        "txt": _texts,
        "cls": st.integers(0, 9).map(lambda number: str(number).encode()),
        "json": _json.map(lambda text: text.encode("utf-8", "replace")),
        "meta.json": _texts,
        "npy": st.binary(min_size=1, max_size=9),
    },
).filter(bool)
_samples = st.dictionaries(_keys, _parts, min_size=1, max_size=6)
#: Keys that need no escaping as file names: a folder named `%` or `%2E` would be read as an escaped name.
_samples_with_plain_keys = _samples.filter(lambda samples: all(part_path(key, "x") == f"{key}.x" for key in samples))


@pytest.mark.parametrize("form", REVERSIBLE)
@settings(max_examples=15, deadline=None)
@given(samples=_samples)
def test_samples_round_trip_through_exporter_and_importer(form: str, samples: Samples) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = {name for parts in samples.values() for name in parts}
        options = {"binary": ",".join(JSON_PARTS & names)} if form == "litdata" else {}
        path = write_unit(Path(folder) / "d", form, samples, options)

        assert read_samples(path, form=READ_AS.get(form, form)) == samples


@settings(max_examples=15, deadline=None)
@given(samples=_samples_with_plain_keys)
def test_folder_round_trips(samples: Samples) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_unit(Path(folder) / "d", "folder", samples)

        assert read_samples(path, {"on-missing": "keep"}, form="folder") == samples


@pytest.mark.parametrize("form", [*REVERSIBLE, "folder"])
def test_same_samples_give_same_bytes(tmp_path: Path, form: str) -> None:
    samples = {
        f"a/{i}": {"jpg": bytes([i]) * 999, "txt": b"x", **({"json": b"{}"} if i % 3 else {})} for i in range(20)
    }

    trees = [
        {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        for root in (Path(write_unit(tmp_path / name, form, samples)) for name in ("one", "two"))
    ]

    assert trees[0] == trees[1]
    assert not [name for name in trees[0] if "draft" in name]
