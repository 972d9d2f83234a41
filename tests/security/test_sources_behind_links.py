"""Metadata, tables, shards and archives of a source that are links out of it, or pipes, are read by no importer."""

from __future__ import annotations

import io
import json
import os
import signal
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pyarrow import ipc

from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import WdsctlError
from wdsctl.core.prepare.archives import unpack_archives
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE, name_source, open_source_file

MARK = "text of another folder"


def _jpeg() -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (8, 8)).save(target, "JPEG")
    return target.getvalue()


def _table() -> pa.Table:
    return pa.table({"image": [_jpeg()] * 3, "text": [MARK] * 3})


def _write_hugging_face(folder: Path) -> None:
    with ipc.new_stream(folder / "data-00000-of-00001.arrow", _table().schema) as file:
        file.write_table(_table())
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}, "description": MARK}))


def _write_parquet(folder: Path) -> None:
    pq.write_table(_table(), folder / "a.parquet")


def _write_csv(folder: Path) -> None:
    (folder / "1.jpg").write_bytes(_jpeg())
    (folder / "a.csv").write_text(f"file,caption\n1.jpg,{MARK}\n")


def _write_jsonl(folder: Path) -> None:
    (folder / "1.jpg").write_bytes(_jpeg())
    (folder / "a.jsonl").write_text(json.dumps({"image": "1.jpg", "caption": MARK}) + "\n")


def _write_json(folder: Path) -> None:
    (folder / "1.jpg").write_bytes(_jpeg())
    (folder / "a.json").write_text(json.dumps([{"image": "1.jpg", "caption": MARK}] * 2))


def _write_class_names(folder: Path) -> None:
    for name in ("n01", "n02"):
        (folder / name).mkdir()
        (folder / name / "1.jpg").write_bytes(_jpeg())
    (folder / "classes.txt").write_text(f"n01 {MARK}\nn02 other\n")


def _write_yolo(folder: Path) -> None:
    (folder / "1.jpg").write_bytes(_jpeg())
    (folder / "1.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    (folder / "data.yaml").write_text(f"names: [{MARK}]\n")


def _write_voc(folder: Path) -> None:
    for name in ("Annotations", "JPEGImages"):
        (folder / name).mkdir()
    (folder / "JPEGImages" / "1.jpg").write_bytes(_jpeg())
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
    text = f"<annotation><filename>1.jpg</filename><object><name>{MARK}</name>{box}</object></annotation>"
    (folder / "Annotations" / "1.xml").write_text(text)


def _write_coco(folder: Path) -> None:
    (folder / "1.jpg").write_bytes(_jpeg())
    notes = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}]
    content = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": notes,
        "categories": [{"id": 1, "name": MARK}],
    }
    (folder / "a.json").write_text(json.dumps(content))


#: Form -> (what writes it, the file that has the secret, in the place of which an attacker puts a link)
FORMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "huggingface": (_write_hugging_face, "data-00000-of-00001.arrow"),
    "huggingface-state": (_write_hugging_face, "state.json"),
    "huggingface-info": (_write_hugging_face, "dataset_info.json"),
    "parquet": (_write_parquet, "a.parquet"),
    "csv": (_write_csv, "a.csv"),
    "jsonl": (_write_jsonl, "a.jsonl"),
    "json": (_write_json, "a.json"),
    "class-names": (_write_class_names, "classes.txt"),
    "yolo": (_write_yolo, "data.yaml"),
    "voc": (_write_voc, "Annotations/1.xml"),
    "coco": (_write_coco, "a.json"),
}


def convert_folder(source: Path, dest: Path, form: str) -> bytes:
    """Convert a source; return all bytes of the result."""
    name = "imagefolder" if form == "class-names" else form.partition("-")[0]
    convert([str(source)], str(dest), ConvertRequest(from_format=name))
    return b"".join(path.read_bytes() for path in dest.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", FORMS)
def test_link_out_of_source_is_not_read(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, name = FORMS[form]
    source, private = tmp_path / "source", tmp_path / "private"
    source.mkdir()
    private.mkdir()
    write(source)
    os.rename(source / name, private / "file")
    os.symlink(private / "file", source / name)

    result = ""
    with suppress(WdsctlError):  # class names are optional, for example
        result = convert_folder(source, tmp_path / "made", form).decode("latin-1")
    assert MARK not in result

    monkeypatch.setenv(ALLOW_PATH_VARIABLE, str(private))
    convert_folder(source, tmp_path / "allowed", form)


@pytest.mark.parametrize("form", FORMS)
def test_pipe_in_place_of_file_is_not_waited_for(tmp_path: Path, form: str) -> None:
    write, name = FORMS[form]
    source = tmp_path / "source"
    source.mkdir()
    write(source)
    os.unlink(source / name)
    os.mkfifo(source / name)
    before = signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(60)
    try:
        with suppress(WdsctlError):
            convert_folder(source, tmp_path / "made", form)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _raise_timeout(*_: object) -> NoReturn:
    raise TimeoutError("it waits")


def test_link_inside_source_is_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "blobs").mkdir(parents=True)
    _write_parquet(source / "blobs")
    os.rename(source / "blobs/a.parquet", source / "blobs/1")
    os.symlink("blobs/1", source / "a.parquet")

    assert MARK.encode() in convert_folder(source, tmp_path / "made", "parquet")


def test_link_that_the_user_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    _write_parquet(tmp_path / "data")
    os.symlink("data/a.parquet", tmp_path / "named.parquet")

    assert MARK.encode() in convert_folder(tmp_path / "named.parquet", tmp_path / "made", "parquet")


def test_open_source_follows_no_folder_that_becomes_a_link(tmp_path: Path) -> None:
    source, private = tmp_path / "source", tmp_path / "private"
    for folder in (source / "rows", private):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(folder.name)
    name_source(str(source))
    with open_source_file(str(source / "rows" / "a.csv")) as file:
        assert file.read() == b"rows"

    (source / "rows").rename(source / "before")
    (source / "rows").symlink_to(private)

    with pytest.raises(WdsctlError, match="leads out of"):
        open_source_file(str(source / "rows" / "a.csv"))


def _write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(3):
            archive.writestr(f"{i}.jpg", _jpeg())
            archive.writestr(f"{i}.txt", MARK)


def unpack(source: Path, dest: Path) -> dict[str, bytes]:
    """The files of a source whose zips are unpacked."""
    with unpack_archives(str(source), str(dest), lambda _: None) as folder:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*.*")}


def test_zip_that_is_link_out_of_source_is_not_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    _write_zip(tmp_path / "private.zip")
    os.symlink(tmp_path / "private.zip", source / "a.zip")

    with pytest.raises(WdsctlError, match="leads out of"):
        unpack(source, tmp_path / "made")


@pytest.mark.parametrize("has_links", [True, False])
def test_links_next_to_zip_are_not_copied_from_elsewhere(
    tmp_path: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, private = tmp_path / "source", tmp_path / "private.txt"
    source.mkdir()
    _write_zip(source / "a.zip")
    (source / "9.txt").write_text("nine")
    private.write_text(MARK)
    if not has_links:  # as across file systems
        monkeypatch.setattr(os, "link", _refuse_link)
    os.symlink("9.txt", source / "8.txt")
    found = unpack(source, tmp_path / "made")
    assert (found["8.txt"], found["9.txt"], found["a/0.txt"]) == (b"nine", b"nine", MARK.encode())

    for target in (str(private), "/dev/zero", "../private.txt"):
        (source / "8.txt").unlink()
        os.symlink(target, source / "8.txt")
        with pytest.raises(WdsctlError, match="leads out of"):
            unpack(source, tmp_path / "other")


def _refuse_link(*_: object, **__: object) -> None:
    raise OSError(18, "Invalid cross-device link")


def test_linked_file_keeps_time_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    _write_zip(source / "a.zip")
    (source / "9.txt").write_text("nine")
    os.utime(source / "9.txt", (1000, 2000))
    seen = []
    for link in (os.link, _refuse_link):
        monkeypatch.setattr(os, "link", link)
        with unpack_archives(str(source), str(tmp_path / "made"), lambda _: None) as folder:
            seen.append((os.stat(f"{folder}/9.txt").st_mtime, Path(folder, "9.txt").read_text()))

    assert seen == [(2000, "nine")] * 2
