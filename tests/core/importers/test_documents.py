"""Documents of texts and images in JSON, JSONL, Parquet and Hugging Face datasets: each text and image is accounted for
by code that knows only how the fixtures were made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.build import a_folder
from tests.core.formats import Samples, describe_source, description_findings, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.importers.protocol import DescribedSource

COUNT = 12
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
JPEG, PNG = b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"

#: A document as it was made: text, the bytes of an image, or None for what was lost.
Document = list[str | bytes | None]


def make_document(i: int) -> Document:
    """The i-th document: texts only, or with up to two images, and something lost in between."""
    first, second = JPEG + f"first {i}".encode(), PNG + f"second {i}".encode()
    forms: list[Document] = [[f"ä {i}", first, None, "end", second], [None, f"only {i}"], [first, f"after {i}"]]
    return forms[i % 3]


def name_of(image: bytes) -> str:
    return f"pics/{image.split(b' ')[0][-5:].decode(errors='ignore')}{image.split()[-1].decode()}.jpg"


def obelics(document: Document, image: Callable[[bytes], Any]) -> dict[str, Any]:
    return {
        "images": [image(each) if isinstance(each, bytes) else None for each in document],
        "metadata": "[]",
        "texts": [each if isinstance(each, str) else None for each in document],
    }


def mmc4(document: Document, image: Callable[[bytes], Any]) -> dict[str, Any]:
    """Images before the next text; an image at the end gets an empty text."""
    texts, infos = list[str](), list[dict[str, Any]]()
    for each in document:
        if isinstance(each, bytes):
            infos.append({"image_name": image(each), "raw_url": "http://x/y", "matched_text_index": len(texts)})
        elif each is not None:
            texts.append(each)
    if infos and infos[-1]["matched_text_index"] == len(texts):
        texts.append("")
    # The order of the list is not that of the document.
    return {"url": "http://x", "text_list": texts, "image_info": infos[::-1], "similarity_matrix": [[0.5]]}


def items(document: Document, image: Callable[[bytes], Any]) -> dict[str, Any]:
    return {
        "sequence": [
            {"type": "image", "image": image(each)} if isinstance(each, bytes) else {"type": "text", "text": each}
            for each in document
            if each is not None
        ]
    }


def seen(parts: dict[str, bytes], form: str) -> Document:
    """The document that the parts of a sample hold, by the names in its places."""
    document = json.loads(parts["json"])
    if form == "obelics":
        pairs = zip(document["images"], document["texts"], strict=True)
        return [parts[image] if image is not None else text for image, text in pairs]
    if form == "mmc4":
        found: Document = []
        for i, text in enumerate(document["text_list"]):
            named = [info["image_name"] for info in document["image_info"] if info["matched_text_index"] == i]
            found += [*(parts[name] for name in sorted(named)), text]
        return found
    return [parts[item["image"]] if item["type"] == "image" else item["text"] for item in document["sequence"]]


FORMS: dict[str, Callable[..., dict[str, Any]]] = {"obelics": obelics, "mmc4": mmc4, "items": items}


def check(samples: Samples, form: str) -> None:
    assert len(samples) == COUNT
    for i, parts in enumerate(samples.values()):
        expected = make_document(i) if form == "obelics" else [each for each in make_document(i) if each is not None]
        found = seen(parts, form)
        assert [each for each in found if each != ""] == expected
        images = [each for each in expected if isinstance(each, bytes)]
        assert sorted(data for name, data in parts.items() if name != "json") == sorted(images)
        numbers = [""] if len(images) == 1 else [f"{n}." for n in range(len(images))]
        assert len(parts) == 1 + len(images)
        assert all(any(name.startswith(number) for number in numbers) for name in parts if name != "json")


def files_of(documents: list[Document]) -> dict[str, bytes]:
    return {name_of(each): each for document in documents for each in document if isinstance(each, bytes)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["docs.jsonl", "docs.json", "."])
def test_rows_of_paths_become_documents(tmp_path: Path, form: str, name: str) -> None:
    documents = [make_document(i) for i in range(COUNT)]
    rows = [FORMS[form](document, name_of) for document in documents]
    text = json.dumps(rows) if name == "docs.json" else "\n".join(map(json.dumps, rows))
    table = "docs.jsonl" if name == "." else name
    root = a_folder(tmp_path, {table: text.encode(), **files_of(documents)})
    path = root if name == "." else f"{root}/{name}"

    check(read_samples(path), form)
    description = describe_source(path)
    assert description.config is not None
    assert (description.config.sample_type, description.config.field_map) == (
        "InterleavedSample",
        {"sequence": "json", "images": "*"},
    )
    assert description_findings(path) == []


@pytest.mark.parametrize("form", ["obelics", "items"])
@pytest.mark.parametrize("kind", ["file", "folder", "huggingface"])
def test_rows_of_bytes_become_documents(tmp_path: Path, form: str, kind: str) -> None:
    documents = [make_document(i) for i in range(COUNT)]
    rows = [FORMS[form](document, lambda image: {"bytes": image, "path": None}) for document in documents]
    item = pa.struct([("type", pa.string()), ("text", pa.string()), ("image", IMAGE)])
    types = {
        "images": pa.list_(IMAGE),
        "texts": pa.list_(pa.string()),
        "metadata": pa.string(),
        "sequence": pa.list_(item),
    }
    table = pa.table({name: pa.array([row[name] for row in rows], types[name]) for name in rows[0]})
    tmp_path = tmp_path / "data"
    tmp_path.mkdir()
    if kind == "huggingface":
        with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    else:
        pq.write_table(table, str(tmp_path / "docs.parquet"))
    path = tmp_path / "docs.parquet" if kind == "file" else tmp_path

    check(read_samples(path), form)
    description = describe_source(path)
    assert description.config is not None
    assert description.config.sample_type == "InterleavedSample"


def test_documents_with_paths_in_hugging_face_dataset_account_for_their_files(tmp_path: Path) -> None:
    documents = [make_document(i) for i in range(COUNT)]
    rows = [obelics(document, name_of) for document in documents]
    root = Path(
        a_folder(tmp_path, {**files_of(documents), "state.json": b'{"_data_files": [{"filename": "a.arrow"}]}'})
    )
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    with pa.OSFile(str(root / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)

    check(read_samples(root), "obelics")
    assert description_findings(root) == []


def test_rows_of_documents_that_cannot_be_read_are_faults(tmp_path: Path) -> None:
    good = {"images": ["a.jpg", None], "texts": [None, "one"]}
    rows = [
        good,
        {"images": ["a.jpg", None], "texts": [None, "one", None]},
        {"images": ["missing.jpg", None], "texts": [None, "one"]},
        {"images": [None, None], "texts": [None, None]},
        {"images": [], "texts": []},
        {"images": ["a.jpg"], "texts": ["one"]},
        {"images": ["notes.txt", None], "texts": [None, "one"]},
        {"images": ["../a.jpg", None], "texts": [None, "one"]},
        {"images": ["https://x/a.jpg", None], "texts": [None, "one"]},
        {"title": "none"},
        *[good] * 10,
    ]
    root = a_folder(
        tmp_path, {"d.jsonl": "\n".join(map(json.dumps, rows)).encode(), "a.jpg": JPEG, "notes.txt": b"text"}
    )

    errors = read_errors(f"{root}/d.jsonl")

    assert {i: error.code for i, error in errors.items()} == {
        1: "WDS174", 2: "WDS231", 3: "WDS174", 4: "WDS174", 5: "WDS174",
        6: "WDS174", 7: "WDS230", 8: "WDS230", 9: "WDS174",
    }  # fmt: skip
    assert all(f"d.jsonl:{i + 1}" in error.where for i, error in errors.items())


@pytest.mark.parametrize(
    "row",
    [
        {"sequence": [{"type": "image", "image": "a.jpg"}, {"type": "image"}]},
        {"sequence": [{"type": "image", "image": "a.jpg"}], "images": ["a.jpg"]},
        {"sequence": [{"type": "image"}, {"type": "image"}], "images": ["a.jpg"]},
    ],
)
def test_places_and_images_that_do_not_fit_are_faults(tmp_path: Path, row: dict[str, Any]) -> None:
    good = {"sequence": [{"type": "image", "image": "a.jpg"}, "one"]}
    lines = "\n".join(map(json.dumps, [good, row]))
    root = a_folder(tmp_path, {"d.jsonl": lines.encode(), "a.jpg": JPEG})

    assert {i: error.code for i, error in read_errors(f"{root}/d.jsonl").items()} == {1: "WDS174"}


def test_pairs_of_images_and_texts_are_no_documents(tmp_path: Path) -> None:
    row = {"images": ["a.jpg", "b.jpg"], "texts": ["one", "two"]}
    root = a_folder(tmp_path, {"d.jsonl": json.dumps(row).encode(), "a.jpg": JPEG + b"a", "b.jpg": JPEG + b"b"})

    (parts,) = read_samples(f"{root}/d.jsonl").values()

    assert parts == {"0.jpg": JPEG + b"a", "1.jpg": JPEG + b"b", "json": b'{"texts":["one","two"]}'}


def test_option_files_keeps_lists_as_they_are(tmp_path: Path) -> None:
    row = {"images": [None, "a.jpg"], "texts": ["one", None]}
    root = a_folder(tmp_path, {"d.jsonl": json.dumps(row).encode(), "a.jpg": JPEG})

    (parts,) = read_samples(f"{root}/d.jsonl", {"files": "images"}).values()
    (plain,) = read_samples(f"{root}/d.jsonl", {"files": ""}).values()

    assert json.loads(parts["json"]) == {"texts": ["one", None]}
    assert json.loads(plain["json"]) == row


CHAT = [{"user": "Where <is> it?", "assistant": "Here.", "source": "ai2d"}, {"user": "Sure?", "assistant": "Yes."}]


@pytest.mark.parametrize("kind", ["parquet", "huggingface", "jsonl"])
def test_texts_of_user_and_assistant_become_conversations(tmp_path: Path, kind: str) -> None:
    pictures = [[JPEG + b"1", PNG + b"2"], [], [JPEG + b"3"]]
    tmp_path = tmp_path / "data"
    if kind == "jsonl":
        names = {f"{i}-{n}.jpg": each for i, some in enumerate(pictures) for n, each in enumerate(some)}
        rows = [
            {"images": [name for name in names if name.startswith(f"{i}-")], "texts": CHAT}
            for i in range(len(pictures))
        ]
        a_folder(tmp_path, {"d.jsonl": "\n".join(map(json.dumps, rows)).encode(), **names})
    else:
        tmp_path.mkdir()
        images = pa.array([[{"bytes": each, "path": None} for each in some] for some in pictures], pa.list_(IMAGE))
        table = pa.table({"images": images, "texts": [CHAT] * 3})
        if kind == "huggingface":
            with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        else:
            pq.write_table(table, str(tmp_path / "d.parquet"))

    found = list(read_samples(tmp_path).values())

    assert [sorted(data for name, data in parts.items() if name != "json") for parts in found] == [
        sorted(some) for some in pictures
    ]
    assert [json.loads(parts["json"])["texts"][0]["user"] for parts in found] == ["Where <is> it?"] * 3
    importer, _ = importers.best_importer(str(tmp_path))
    with importer.open(str(tmp_path), {}) as source:
        assert isinstance(source, DescribedSource)
        config = source.describe().config
    assert config is not None
    assert (config.sample_type, config.optional) == ("ConversationSample", ("images", "videos", "audios"))


@pytest.mark.parametrize("is_folder", [True, False])
def test_parquet_conversations_are_checked_as_those_of_json(tmp_path: Path, is_folder: bool) -> None:
    turns = [[{"from": "human", "value": "<image>\nhi"}, {"from": "gpt", "value": "x"}]] * 3
    images = pa.array([[{"bytes": JPEG, "path": None}], [], [{"bytes": JPEG, "path": None}] * 2], pa.list_(IMAGE))
    root = tmp_path / "data"
    root.mkdir()
    pq.write_table(pa.table({"images": images, "conversations": turns}), str(root / "d.parquet"))

    errors = read_errors(root if is_folder else root / "d.parquet")

    assert {i: error.code for i, error in errors.items()} == {1: "WDS161", 2: "WDS161"}
