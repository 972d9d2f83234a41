from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.dataset.config import (
    DatasetConfig,
    dump_config,
    load_config,
    parse_config,
    required_fields,
    update_split_section,
)
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError
from wdsctl.core.samples.field_path import FieldPath, PartAccess
from wdsctl.core.samples.types import CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES
from wdsctl.core.split_rules.rule import SplitRule

if TYPE_CHECKING:
    from pathlib import Path

CAPTIONS = DatasetConfig(
    "CaptioningSample",
    {"image": "jpg,png", "caption": "json[caption]"},
    {},
    SplitRule({"train": 8, "val": 1}, "shard", 0),
)
GOLDEN = """\
# What the samples of this dataset are. Edit it by hand; wdsctl never overwrites your changes unless asked (--redetect).
version: 1
sample_type: CaptioningSample
field_map:
  image: jpg,png
  caption: json[caption]
subflavors: {}
split:            # the rule of `wdsctl split`, also applied to new shards
  shares: {train: 8, val: 1}
  by: shard
  seed: 0
"""

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
SOURCES = st.builds(
    lambda part, steps: str(FieldPath((PartAccess(part, tuple(steps)),))), TEXT, st.lists(TEXT, max_size=2)
)
PARTS = st.builds(lambda part: str(FieldPath((PartAccess(part),))), TEXT)
SPLITS = st.builds(
    SplitRule,
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True),
        st.integers(1, 1000) | st.floats(1e-6, 1e6),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["auto", "shard", "sample"]),
    st.integers(-(2**40), 2**40),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def configs(draw: st.DrawFn) -> DatasetConfig:
    sample_type = draw(st.sampled_from([*SAMPLE_TYPES, CRUDE]))
    fields = SAMPLE_TYPES.get(sample_type, ())
    field_map = {field.name: draw(PARTS if field.kind in MEDIA_LIST_KINDS else SOURCES) for field in fields}
    subflavors: dict[str, Any] = draw(st.dictionaries(TEXT, VALUES, max_size=3))
    split = draw(st.none() | SPLITS)
    optional_names = [field.name for field in SAMPLE_TYPES.get(sample_type, ()) if not field.required]
    optional = tuple(draw(st.lists(st.sampled_from(optional_names), unique=True))) if optional_names else ()
    return DatasetConfig(sample_type, field_map, subflavors, split, optional=optional)


def test_dump_config_format_is_stable() -> None:
    assert dump_config(CAPTIONS) == GOLDEN


@given(configs())
def test_config_round_trips(config: DatasetConfig) -> None:
    text = dump_config(config)

    assert parse_config(text) == config
    assert dump_config(parse_config(text)) == text


def test_tiny_share_is_written_as_decimal_number() -> None:
    config = DatasetConfig(split=SplitRule({"train": 1, "val": 1e-6}))

    assert "{train: 1, val: 0.000001}" in dump_config(config)
    assert parse_config(dump_config(config)) == config


def test_load_config_reads_file(tmp_path: Path) -> None:
    (tmp_path / "dataset.yaml").write_text(GOLDEN, encoding="utf-8")

    assert load_config(str(tmp_path / "dataset.yaml")) == CAPTIONS


def test_load_config_accepts_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "dataset.yaml").write_bytes(b"\xef\xbb\xbf" + GOLDEN.replace("\n", "\r\n").encode())

    assert load_config(str(tmp_path / "dataset.yaml")) == CAPTIONS


def test_unreadable_config_error_states_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_config(str(tmp_path / "absent.yaml"))
    with pytest.raises(StorageError):
        load_config(str(tmp_path))
    (tmp_path / "latin.yaml").write_bytes(b"sample_type: \xe4\n")
    with pytest.raises(DatasetError, match="not UTF-8"):
        load_config(str(tmp_path / "latin.yaml"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_config_by_permission_raises_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "dataset.yaml"
    path.write_text(GOLDEN, encoding="utf-8")
    path.chmod(0)

    with pytest.raises(PermissionDenied):
        load_config(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "sample_type: {__module__: megatron.energon, __class__: ImageSample}\nfield_map: {image: jpg}",
            DatasetConfig("ImageSample", {"image": "jpg"}),
        ),
        (
            "__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors:\n  kind: pages\n",
            DatasetConfig(CRUDE, {}, {"kind": "pages"}),
        ),
        ("sample_type: CrudeSample\ntags: {kind: pages}\n", DatasetConfig(CRUDE, {}, {"kind": "pages"})),
        (
            "__module__: megatron.energon\n__class__: CaptioningWebdataset\nfield_map: {image: jpg, caption: txt}\n",
            DatasetConfig("CaptioningSample", {"image": "jpg", "caption": "txt"}),
        ),
        (
            "sample_type:\n  __module__: megatron.energon.flavors\n  __class__: TextSample\nfield_map:\n  text: txt\n",
            DatasetConfig("TextSample", {"text": "txt"}),
        ),
        (
            "sample_type: megatron.energon:TextSample\nfield_map: {text: txt}\n",
            DatasetConfig("TextSample", {"text": "txt"}),
        ),
        ("sample_type: megatron.mine:TextSample\n", DatasetConfig("megatron.mine:TextSample")),
    ],
)
def test_parse_config_accepts_energon_format(text: str, expected: DatasetConfig) -> None:
    assert parse_config(text) == expected


@pytest.mark.parametrize("name", ["{__module__: my.code, __class__: Mine}", "my.code:Mine"])
def test_custom_sample_type_is_named_by_module(name: str) -> None:
    config = parse_config(f"sample_type: {name}\nfield_map: {{anything: jpg}}\n")

    assert config == DatasetConfig("my.code:Mine", {"anything": "jpg"})
    assert parse_config(dump_config(config)) == config


def test_sample_loader_and_part_filter_are_named_and_not_run() -> None:
    text = "sample_type: VQASample\nsample_loader: sample_loader.py:sample_loader\n"
    config = parse_config(text + "part_filter: sample_loader.py:part_filter\n")

    assert config.sample_loader == "sample_loader.py:sample_loader"
    assert config.part_filter == "sample_loader.py:part_filter"
    assert parse_config(dump_config(config)) == config
    listed = parse_config("sample_type: CrudeSample\npart_filter: [jpg, 'no']\n")
    assert listed.part_filter == ("jpg", "no")
    assert parse_config(dump_config(listed)) == listed


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("sample_tpye: X\n", ":1", "unknown key 'sample_tpye'", "did you mean sample_type?"),
        ("sample_type: CrudeSample\nzebra: 1\n", ":2", "unknown key 'zebra'", "choose one of version, sample_type"),
        ("version: 1\nsample_type: CaptionSample\n", ":2", "unknown sample type", "did you mean CaptioningSample?"),
        ("version: 2\nsample_type: CrudeSample\n", ":1", "version 2 is newer", "pip install -U"),
        ("version: one\n", ":1", "version: expected 1, found 'one'", ""),
        ("version: 1\n", "", "sample_type: expected a name", ""),
        ("sample_type: [a]\n", ":1", "sample_type: expected a name such as CaptioningSample, found ['a']", ""),
        ("", "", "found nothing", ""),
        ("- a\n", "", "found ['a']", ""),
        ("sample_type: ImageSample\nfield_map:\n  image: jpg\n  imgae: png\n", ":4", "no field 'imgae'", "mean image?"),
        ("sample_type: ImageSample\nfield_map:\n  image: jpg[\n", ":3", "expected a key", "write a part"),
        ("sample_type: ImageSample\nfield_map:\n  image: 7\n", ":3", "image: expected a part or a key", "in quotes"),
        ("sample_type: ImageSample\nfield_map:\n  no: 7\n", ":2", "False is not a name", ""),
        ("sample_type: ImageSample\nfield_map: jpg\n", ":2", "field_map: expected `name: value` pairs", ""),
        ("sample_type: TextSample\nfield_map: {}\n", ":2", "TextSample needs text", "use one of its fields text"),
        ("sample_type: TextSample\n", "", "TextSample needs text", ""),
        ("sample_type: {__module__: my.code}\n", ":1", "unknown sample type", ""),
        (
            "sample_type: CrudeSample\nsample_loader: ../x.py:f\n",
            ":2",
            "expected FILE.py:FUNCTION",
            "beside dataset.yaml",
        ),
        ("sample_type: CrudeSample\npart_filter: []\n", ":2", "part_filter: expected names of parts", ""),
        (
            "sample_type: TextSample\nfield_map: {text: txt}\nsample_loader: a.py:f\n",
            ":3",
            "sample_loader and field_map exclude each other",
            "keep one of them",
        ),
        ("sample_type: {__modul__: x}\n", ":1", "unknown key '__modul__'", ""),
        ("sample_type: CrudeSample\nsplit:\n  shards: {a: 1}\n", ":3", "unknown key 'shards'", "did you mean shares?"),
        ("sample_type: CrudeSample\nsplit:\n  by: shard\n", ":2", "missing ratios", ""),
        ("sample_type: CrudeSample\nsplit:\n  shares: {a: -1}\n", ":3", "a: expected a number above 0", ""),
        ("sample_type: CrudeSample\nsplit:\n  shares: {a: .nan}\n", ":3", "a: expected a number above 0", ""),
        ("sample_type: CrudeSample\nsplit:\n  shares: {a: 1}\n  by: shrad\n", ":4", "by: expected", "mean shard?"),
        ("sample_type: CrudeSample\nsplit:\n  shares: {a: 1}\n  seed: x\n", ":4", "seed: expected a whole number", ""),
        ("sample_type: CrudeSample\nsubflavors: 3\n", ":2", "subflavors: expected", ""),
        ("sample_type: CrudeSample\ntags: {a: 1}\nsubflavors: {}\n", ":2", "two names of the same key", "subflavors"),
        ("a: [\n", ":2", "invalid file", "check this line"),
    ],
)
def test_invalid_config_error_has_line_message_and_hint(text: str, line: str, message: str, hint: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_config(text, "data/dataset.yaml")

    assert caught.value.code == "WDS220"
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.where == f"data/dataset.yaml{line}"


EDITED = """\
# my own remark
version: 1
sample_type: CaptioningSample   # not VQA!
field_map:
  # the png files came later
  image: jpg,png
  caption: "json[caption]"

split:
  shares:
    train: 8
    val: 1
  by: shard

# these are mine
subflavors:
  source: web     # 2024
"""


def test_update_split_section_keeps_other_lines() -> None:
    updated = update_split_section(EDITED, SplitRule({"train": 9, "test": 0.5}, "sample", 7))

    before, _, after = EDITED.partition("split:\n  shares:\n    train: 8\n    val: 1\n  by: shard\n")
    assert updated == (
        f"{before}split:            # the rule of `wdsctl split`, also applied to new shards\n"
        f"  shares: {{train: 9, test: 0.5}}\n  by: sample\n  seed: 7\n{after}"
    )


def test_update_split_section_keeps_text_of_same_split() -> None:
    assert update_split_section(EDITED, SplitRule({"train": 8, "val": 1}, "shard", 0)) == EDITED


@pytest.mark.parametrize(
    "text",
    [
        EDITED,
        EDITED.replace("\n", "\r\n"),
        GOLDEN,
        GOLDEN.removesuffix("\n"),
        dump_config(DatasetConfig()),
        dump_config(DatasetConfig()).removesuffix("\n"),
        "---\nsample_type: CrudeSample\n...\n",
        "sample_type: CrudeSample\n# the end\n",
        "sample_type: CrudeSample\nsplit: {shares: {a: 1},\n  by: shard}\nsubflavors: {x: 1}\n",
        "split: null\nsample_type: CrudeSample\n",
        "{sample_type: CrudeSample, split: {shares: {a: 1}}}\n",
    ],
)
@pytest.mark.parametrize("split", [None, SplitRule({"train": 1, "val": 2}, "sample", 3)])
def test_update_split_section_accepts_any_valid_file(text: str, split: SplitRule | None) -> None:
    updated = update_split_section(text, split)

    before, after = parse_config(text), parse_config(updated)
    assert after.split == split
    assert (after.sample_type, after.field_map, after.subflavors) == (
        before.sample_type,
        before.field_map,
        before.subflavors,
    )
    assert update_split_section(updated, split) == updated


def test_update_split_section_keeps_line_endings() -> None:
    updated = update_split_section(EDITED.replace("\n", "\r\n"), SplitRule({"train": 1}))

    assert updated.count("\r\n") == updated.count("\n")


def test_required_field_cannot_be_optional() -> None:
    text = "sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n"
    for name in ("caption", "txt"):
        with pytest.raises(DatasetError, match="CaptioningSample requires caption"):
            parse_config(f"{text}optional: [{name}]\n")
    assert parse_config(f"{text}optional: [other]\n").optional == ("other",)


def test_required_fields_excludes_optional_fields_and_parts() -> None:
    fields = {"image": "jpg", "label": "json[label],cls", "label_name": "json[name]"}
    sample_type = "ImageClassificationSample"
    assert set(required_fields(DatasetConfig(sample_type, fields))) == set(fields)
    assert set(required_fields(DatasetConfig(sample_type, fields, optional=("label",)))) == {"image", "label_name"}
    assert set(required_fields(DatasetConfig(sample_type, fields, optional=("json",)))) == {"image", "label"}
