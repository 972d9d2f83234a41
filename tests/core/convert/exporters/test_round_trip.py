"""What every exporter promises: read back by its importer, the samples are the same, byte for byte."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.formats import Samples, held, written
from wdsctl.core.importers.records.files import part_path

REVERSIBLE = ("jsonl", "csv", "tsv", "parquet", "mds", "litdata")
READ_AS = {"tsv": "csv"}
#: LitData reads JSON itself, so what it could not read must be bytes.
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
#: Keys that are names of files as they are: a folder named `%` or `%2E` would be taken for one that was written so.
_named = _samples.filter(lambda samples: all(part_path(key, "x") == f"{key}.x" for key in samples))


@pytest.mark.parametrize("form", REVERSIBLE)
@settings(max_examples=15, deadline=None)
@given(samples=_samples)
def test_samples_come_back_as_they_were(form: str, samples: Samples) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = {name for parts in samples.values() for name in parts}
        options = {"binary": ",".join(JSON_PARTS & names)} if form == "litdata" else {}
        path = written(Path(folder) / "d", form, samples, options)

        assert held(path, form=READ_AS.get(form, form)) == samples


@settings(max_examples=15, deadline=None)
@given(samples=_named)
def test_a_folder_comes_back(samples: Samples) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "d", "folder", samples)

        assert held(path, {"on-missing": "keep"}, form="folder") == samples


@pytest.mark.parametrize("form", [*REVERSIBLE, "folder"])
def test_the_same_samples_give_the_same_bytes(tmp_path: Path, form: str) -> None:
    samples = {
        f"a/{i}": {"jpg": bytes([i]) * 999, "txt": b"x", **({"json": b"{}"} if i % 3 else {})} for i in range(20)
    }

    trees = [
        {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        for root in (Path(written(tmp_path / name, form, samples)) for name in ("one", "two"))
    ]

    assert trees[0] == trees[1]
    assert not [name for name in trees[0] if "draft" in name]
