"""To Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.core.formats import written
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_EXTENSIONS


def test_texts_are_strings_and_images_what_hugging_face_reads(tmp_path: Path) -> None:
    samples = {"a/1": {"jpg": b"one", "txt": b"caption", "bin": b"\xff"}, "a/2": {"jpg": b"two"}}
    file = Path(written(tmp_path, "parquet", samples)) / "part-0.parquet"

    table = pq.read_table(file)

    assert table.to_pylist() == [
        {"__key__": "a/1", "bin": b"\xff", "jpg": {"bytes": b"one", "path": "1.jpg"}, "txt": "caption"},
        {"__key__": "a/2", "bin": None, "jpg": {"bytes": b"two", "path": "2.jpg"}, "txt": None},
    ]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["jpg"] == {"_type": "Image"}
    assert features["txt"] == {"dtype": "string", "_type": "Value"}


def test_media_of_every_format_that_the_loader_decodes_are_what_hugging_face_reads(tmp_path: Path) -> None:
    samples = {"a": dict.fromkeys(MEDIA_EXTENSIONS, b"medium")}
    file = Path(written(tmp_path, "parquet", samples)) / "part-0.parquet"

    features = json.loads(pq.read_schema(file).metadata[b"huggingface"])["info"]["features"]

    for ending, each in FORMAT_BY_EXTENSION.items():
        assert features[ending]["_type"] == (each.media_type.capitalize() if each.readers else "Value"), ending


def test_row_groups_are_bounded_by_rows(tmp_path: Path) -> None:
    samples = {str(i): {"bin": b"x"} for i in range(25)}
    file = Path(written(tmp_path, "parquet", samples, {"row-group": "10"})) / "part-0.parquet"

    metadata = pq.read_metadata(file)

    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10, 10, 5]


def test_text_that_is_not_utf_8_is_refused_and_can_be_bytes(tmp_path: Path) -> None:
    samples = {"a/1": {"txt": b"\xff"}}

    with pytest.raises(DatasetError) as error:
        written(tmp_path / "text", "parquet", samples)
    file = Path(written(tmp_path / "bytes", "parquet", samples, {"binary": "txt"})) / "part-0.parquet"

    assert (error.value.code, error.value.where) == ("WDS237", "sample 'a/1'")
    assert error.value.hint == "pass `-O binary=txt` to store the part as bytes"
    assert pq.read_table(file).to_pylist() == [{"__key__": "a/1", "txt": b"\xff"}]


def test_a_part_with_a_reserved_name_and_odd_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="reserved"):
        written(tmp_path / "a", "parquet", {"a": {"__key__": b"x"}})
    with pytest.raises(UsageError, match="no option 'rows'"):
        written(tmp_path / "b", "parquet", {"a": {"txt": b"x"}}, {"rows": "3"})
    with pytest.raises(UsageError, match="whole number"):
        written(tmp_path / "c", "parquet", {"a": {"txt": b"x"}}, {"row-group": "0"})
