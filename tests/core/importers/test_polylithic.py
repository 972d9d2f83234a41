from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder
from tests.core.formats import read_samples
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.parts import PartRules
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError
from wdsctl.core.importers.polylithic import IMPORTER
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def a_blend(root: Path, references: list[Any], store: str) -> str:
    """A blend file of lines that name entries of `store` in their field `m.image`."""
    lines = [json.dumps({"id": f"k{i}", "m": {"image": name}}) + "\n" for i, name in enumerate(references)]
    (root / "lines.jsonl").write_text("".join(lines))
    prepare(str(root / "lines.jsonl"), None, PrepareRequest(index=IndexRequest(key="id")))
    (root / "blend.yaml").write_text(f"splits: {{train: {{path: lines.jsonl, aux: {{pictures: {store}}}}}}}\n")
    return str(root / "blend.yaml")


def read(blend: str, place: int) -> dict[str, bytes]:
    with IMPORTER.open(blend, {"media": "m.image"}) as source:
        return {part.name: part.data for part in source.read(place)}


def test_polylithic_finds_media_by_named_field(tmp_path: Path) -> None:
    media = a_dataset(tmp_path / "media", {"0.tar": {"a/1.jpg": b"one", "a/1.txt": b"-", "a/2.jpg": b"two"}})
    prepare(media)
    a_folder(tmp_path / "files", {"a/3.png": b"three"})

    assert read(a_blend(tmp_path, ["a/2.jpg", "a/1.jpg"], "media"), 1)["jpg"] == b"one"
    assert read(a_blend(tmp_path, ["a/3.png", None], "filesystem://files"), 0)["png"] == b"three"
    assert list(read(a_blend(tmp_path, ["a/3.png", None], "filesystem://files"), 1)) == ["json"]


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "link/passwd", "nothing.jpg", 3])
@pytest.mark.parametrize("store", ["filesystem://files", "media"])
def test_outside_or_missing_references_fail_their_sample(tmp_path: Path, name: Any, store: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    prepare(a_dataset(tmp_path / "media", {"0.tar": {"a.jpg": b"a"}}))
    a_folder(tmp_path / "files", {"a.jpg": b"a"})
    (tmp_path / "files" / "link").symlink_to("/etc")
    blend = a_blend(tmp_path, ["a.jpg", name], store)

    assert read(blend, 0)["jpg"] == b"a"
    with pytest.raises(DatasetError) as caught:
        read(blend, 1)
    assert caught.value.code in ("WDS343", "WDS552")


def test_polylithic_refuses_ambiguous_blend(tmp_path: Path) -> None:
    prepare(a_dataset(tmp_path / "media", {"0.tar": {"a.jpg": b"a"}}))
    blend = a_blend(tmp_path, ["a.jpg"], "media")
    with pytest.raises(UsageError, match="missing option: the JSON field"):
        IMPORTER.open(blend, {})
    with pytest.raises(UsageError, match="cannot assign the stores"):
        IMPORTER.open(blend, {"media": "m.image", "store": "films"})
    with pytest.raises(InputError, match="does not name exactly one dataset"):
        IMPORTER.open(blend, {"media": "m.image", "split": "val"})
    for text in ("[", "splits: 3", "splits: {train: {blend: [{path: a}, {path: b}]}}", ""):
        (tmp_path / "odd.yaml").write_text(text)
        with pytest.raises(WdsctlError):
            IMPORTER.open(str(tmp_path / "odd.yaml"), {"media": "x"})


def test_polylithic_refuses_invalid_polylithic_json(tmp_path: Path) -> None:
    (tmp_path / "polylithic.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read the polylithic\.json"):
        IMPORTER.open(str(tmp_path), {})


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_polylithic_lists_parts_of_primary_and_media(tmp_path: Path, primary: Any) -> None:
    files = {f"{key}.{part}": b'{"n": 1}' for key in "ab" for part in ("jpg", "json", "txt")}
    source = a_dataset(tmp_path / "a", {"0.tar": files})
    convert([source], str(tmp_path / "b"), ConvertRequest(layout="polylithic", media=("jpg",), primary=primary))

    assert sorted(read_samples(tmp_path / "b")["a"]) == ["jpg", "json", "txt"]
    only = ConvertRequest(parts=PartRules(keep=("txt",)))
    assert convert([str(tmp_path / "b")], str(tmp_path / "c"), only).samples == 2


def test_list_samples_includes_media_of_blend(tmp_path: Path) -> None:
    a_folder(tmp_path / "files", {"a.png": b"one", "b.png": b"three"})
    blend = a_blend(tmp_path, ["a.png", "b.png", "gone.png"], "filesystem://files")

    with IMPORTER.open(blend, {"media": "m.image"}) as source:
        listed = [dict(each.parts) for each in source.list_samples()]
    assert [parts.get("png", 0) for parts in listed] == [3, 5, 0]
    assert listed[2] == {}  # a fault, which is raised on reading


def test_convert_notices_replaced_file_of_folder_store(tmp_path: Path) -> None:
    a_folder(tmp_path / "files", {"a.png": b"one", "b.png": b"two"})
    blend, request = (
        a_blend(tmp_path, ["a.png", "b.png"], "filesystem://files"),
        ConvertRequest(format_options={"media": "m.image"}),
    )
    convert([blend], str(tmp_path / "c"), request)
    assert convert([blend], str(tmp_path / "c"), request).up_to_date

    (tmp_path / "files" / "more").mkdir()
    (tmp_path / "files" / "more" / "c.png").write_bytes(b"in no sample")
    assert convert([blend], str(tmp_path / "c"), request).up_to_date
    (tmp_path / "files" / "b.png").write_bytes(b"TWO")
    with pytest.raises(UsageError, match="same names and sizes, and other content"):
        convert([blend], str(tmp_path / "c"), request)


def test_polylithic_list_of_names_becomes_numbered_parts(tmp_path: Path) -> None:
    a_folder(tmp_path / "files", {"a.png": b"one", "b.png": b"two", "c.wav": b"three"})
    lines = [{"pictures": ["a.png", None, "b.png"], "sound": "c.wav"}, {"pictures": []}]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    index(str(tmp_path / "lines.jsonl"))
    (tmp_path / "blend.yaml").write_text("splits: {train: {path: lines.jsonl, aux: {all: filesystem://files}}}\n")

    with IMPORTER.open(str(tmp_path / "blend.yaml"), {"media": "pictures,sound"}) as source:
        both = [{part.name: part.data for part in source.read(place) if part.name != "json"} for place in (0, 1)]
    with IMPORTER.open(str(tmp_path / "blend.yaml"), {"media": "pictures"}) as source:
        alone = [part.name for part in source.read(0)]

    assert both == [{"pictures.0.png": b"one", "pictures.1.png": b"two", "sound.wav": b"three"}, {}]
    assert alone == ["0.png", "1.png", "json"]
