"""Columns and fields that name media are recognised for every extension that the loader reads, in all table formats."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import read_errors, read_samples
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_EXTENSIONS, MEDIA_FORMATS, MediaFormat
from wdsctl.core.media.sniff import extension_of_content

ENDINGS = sorted(MEDIA_EXTENSIONS)


@pytest.mark.parametrize("form", ["csv", "jsonl", "json"])
def test_media_field_of_any_format_becomes_part(tmp_path: Path, form: str) -> None:
    for ending in ENDINGS:
        path = f"media/1.{ending.upper()}"
        rows = {
            "csv": ("t.csv", f"m,text\n{path},a\n"),
            "jsonl": ("t.jsonl", json.dumps({"m": path, "text": "a"}) + "\n"),
            "json": ("t.json", json.dumps([{"id": "1", "m": path, "conversations": []}])),
        }
        name, text = rows[form]
        root = a_folder(tmp_path / ending, {path: b"medium", name: text.encode()})

        (sample,) = read_samples(f"{root}/{name}", form=form).values()

        assert sample[ending] == b"medium"


def test_column_whose_values_name_files_of_any_kind_becomes_part(tmp_path: Path) -> None:
    notes = {f"2018/{i}.{ending}": f"{ending} {i}".encode() for i in range(4) for ending in ("wav", "midi")}
    rows = "audio,score,source,version\n" + "".join(f"2018/{i}.wav,2018/{i}.midi,rows.csv,1.{i}\n" for i in range(4))
    root = a_folder(tmp_path, {"rows.csv": rows.encode(), **notes})

    found = read_samples(root)

    assert sorted(found) == [f"2018/{i}" for i in range(4)]
    assert all(sorted(parts) == ["audio.wav", "json", "score.midi"] for parts in found.values())
    assert found["2018/3"]["score.midi"] == b"midi 3"
    assert json.loads(found["2018/3"]["json"]) == {"source": "rows.csv", "version": 1.3}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_column_of_media_in_base64_becomes_part(tmp_path: Path, form: str) -> None:
    pictures = [an_image("PNG"), an_image("JPEG")]
    texts = [b64encode(pictures[0]).decode(), f"data:image/jpeg;base64,{b64encode(pictures[1]).decode()}"]
    rows = {
        "csv": "image,text\n" + "".join(f'"{each}",a cat\n' for each in texts),
        "jsonl": "".join(json.dumps({"image": each, "text": "a cat"}) + "\n" for each in texts),
    }
    root = a_folder(tmp_path, {f"rows.{form}": rows[form].encode()})

    assert read_samples(root, form=form) == {
        "000000000": {"png": pictures[0], "json": b'{"text":"a cat"}'},
        "000000001": {"jpg": pictures[1], "json": b'{"text":"a cat"}'},
    }


@pytest.mark.parametrize("text", ["a cat " * 20, "abcd" * 30, "0123456789abcdef" * 8, "/path/to/a/file" * 9])
def test_texts_are_no_media_in_base64(tmp_path: Path, text: str) -> None:
    row = json.dumps({"image": text}, separators=(",", ":")).encode()
    root = a_folder(tmp_path, {"rows.jsonl": row + b"\n"})

    assert read_samples(root, form="jsonl") == {"000000000": {"json": row}}


def test_text_that_begins_as_a_medium_in_base64_and_is_none_has_an_error(tmp_path: Path) -> None:
    row = {"image": b64encode(an_image("PNG")).decode() + "?"}
    root = a_folder(tmp_path, {"rows.jsonl": json.dumps(row).encode() + b"\n"})

    assert {i: each.code for i, each in read_errors(root, form="jsonl").items()} == {0: "WDS232"}


def test_coco_images_may_have_any_format(tmp_path: Path) -> None:
    images = [{"id": i, "file_name": f"{ending}.{ending}"} for i, ending in enumerate(ENDINGS)]
    instances = {"images": images, "annotations": [], "categories": []}
    files = {f"val2017/{ending}.{ending}": b"medium" for ending in ENDINGS}
    root = a_folder(tmp_path, {"annotations/instances_val2017.json": json.dumps(instances).encode(), **files})

    found = read_samples(root)

    assert all(found[ending][ending] == b"medium" for ending in ENDINGS)


@pytest.mark.parametrize("each", [each for each in MEDIA_FORMATS if each.media_type == "image" and each.readers])
def test_extension_of_content_is_decodable_by_loader(each: MediaFormat) -> None:
    data = an_image(each.readers[0])

    assert FORMAT_BY_EXTENSION[extension_of_content(data, len(data))] == each
