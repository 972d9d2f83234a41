"""The exporter to Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.core.formats import write_unit
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_EXTENSIONS


def test_text_columns_are_strings_and_images_have_hugging_face_features(tmp_path: Path) -> None:
    samples = {"a/1": {"jpg": b"one", "txt": b"caption", "bin": b"\xff"}, "a/2": {"jpg": b"two"}}
    file = Path(write_unit(tmp_path, "parquet", samples)) / "part-0.parquet"

    table = pq.read_table(file)

    assert table.to_pylist() == [
        {"__key__": "a/1", "bin": b"\xff", "jpg": {"bytes": b"one", "path": "1.jpg"}, "txt": "caption"},
        {"__key__": "a/2", "bin": None, "jpg": {"bytes": b"two", "path": "2.jpg"}, "txt": None},
    ]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["jpg"] == {"_type": "Image"}
    assert features["txt"] == {"dtype": "string", "_type": "Value"}


def test_media_formats_of_loader_have_hugging_face_features(tmp_path: Path) -> None:
    samples = {"a": dict.fromkeys(MEDIA_EXTENSIONS, b"medium")}
    file = Path(write_unit(tmp_path, "parquet", samples)) / "part-0.parquet"

    features = json.loads(pq.read_schema(file).metadata[b"huggingface"])["info"]["features"]

    for extension, media_format in FORMAT_BY_EXTENSION.items():
        assert features[extension]["_type"] == (
            media_format.media_type.capitalize() if media_format.readers else "Value"
        ), extension


def test_row_groups_are_bounded_by_rows(tmp_path: Path) -> None:
    samples = {str(i): {"bin": b"x"} for i in range(25)}
    file = Path(write_unit(tmp_path, "parquet", samples, {"row-group": "10"})) / "part-0.parquet"

    metadata = pq.read_metadata(file)

    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10, 10, 5]


def test_text_that_is_not_utf_8_is_refused_unless_binary(tmp_path: Path) -> None:
    samples = {"a/1": {"txt": b"\xff"}}

    with pytest.raises(DatasetError) as error:
        write_unit(tmp_path / "text", "parquet", samples)
    file = Path(write_unit(tmp_path / "bytes", "parquet", samples, {"binary": "txt"})) / "part-0.parquet"

    assert (error.value.code, error.value.where) == ("WDS237", "sample 'a/1'")
    assert error.value.hint == "pass `-O binary=txt` to store the part as bytes"
    assert pq.read_table(file).to_pylist() == [{"__key__": "a/1", "txt": b"\xff"}]


def test_reserved_part_name_and_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="reserved"):
        write_unit(tmp_path / "a", "parquet", {"a": {"__key__": b"x"}})
    with pytest.raises(UsageError, match="no option 'rows'"):
        write_unit(tmp_path / "b", "parquet", {"a": {"txt": b"x"}}, {"rows": "3"})
    with pytest.raises(UsageError, match="whole number"):
        write_unit(tmp_path / "c", "parquet", {"a": {"txt": b"x"}}, {"row-group": "0"})
