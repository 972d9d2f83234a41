"""Entries of a prepared dataset are found by name and read with one range."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from tests.build import a_dataset as tars
from tests.build import a_folder, an_image, rewrite_shard
from tests.loader.decoding.av.media import make_video
from tests.loader.stores.stores import a_tar_store, open_prepared_store, open_reference
from tests.open_files import sizes_read
from tests.places import in_folder_and_memory
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.errors import CatalogError, SampleFailed, StateMismatch, StorageDown, StorageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import AVDecoder, CrudeSample, LazyPart, SampleDecoder
from wdsctl.loader.stores import open_store

FILES = {"a/1.txt": b"one", "a/1.seg.png": an_image("PNG"), "a/2.txt": b"two", "b.v2/3.json": b'{"x": 1}'}


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_entry_is_decoded_by_extension(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, FILES))

    assert store.get("a/2.txt") == "two"
    assert store.get("b.v2/3.json") == {"x": 1}
    assert tuple(store.get("a/1.seg.png").shape) == (3, 32, 48)


def test_entries_without_decoder_are_bytes(tmp_path: Path) -> None:
    assert open_prepared_store(a_tar_store(tmp_path, FILES), decoder=None).get("b.v2/3.json") == b'{"x": 1}'


def test_source_of_entry_has_exact_byte_range(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    data, source = open_prepared_store(root)["a/2.txt"]

    first, size = source.byte_range or (0, 0)
    assert (data, source.dataset_path, source.shard_name, source.file_names) == (
        "two",
        root,
        "shard-0.tar",
        ("a/2.txt",),
    )
    assert (tmp_path / "shard-0.tar").read_bytes()[first : first + size] == b"two"


def test_get_adds_source_to_sample_once(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, FILES))
    sample = CrudeSample(__sources__=())

    for _ in range(2):  # the same entry is one source
        store.get("a/2.txt", sample)
    store.get("a/1.txt", sample)

    assert [source.file_names for source in sample["__sources__"]] == [("a/2.txt",), ("a/1.txt",)]


def test_key_without_extension_returns_whole_sample(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, FILES))
    data, source = store["a/1"]

    assert data["txt"] == "one"
    assert tuple(data["seg.png"].shape) == (3, 32, 48)
    assert source.file_names == ("a/1.txt", "a/1.seg.png")


@pytest.mark.usefixtures("place")
def test_opened_entry_reads_requested_range(tmp_path: Path) -> None:
    handle = open_prepared_store(a_tar_store(tmp_path, FILES)).open("a/2.txt")

    assert isinstance(handle, LazyPart)
    assert (len(handle), handle.read(1, 2)) == (3, b"wo")


def test_store_contains_only_existing_names(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, FILES))

    assert "a/1.txt" in store
    assert "a/1.jpg" not in store
    assert 7 not in store


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("a/9.txt", "check the reference"),
        ("A/1.TXT", "did you mean 'a/1.txt'"),
        ("a/1.Seg.png", "did you mean 'a/1.seg.png'"),
        ("a/2.jpg", "the key has the parts 'a/2.txt'"),
        ("../../etc/passwd", "check the reference"),
        ("", "check the reference"),
    ],
)
def test_missing_name_is_reported_with_suggestion(tmp_path: Path, name: str, hint: str) -> None:
    root = a_tar_store(tmp_path, FILES)
    with pytest.raises(SampleFailed) as raised:
        open_prepared_store(root).get(name)

    assert raised.value.code == "WDS550"
    assert raised.value.where == f"store {root}, entry {name}"
    assert hint in raised.value.hint


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_duplicate_name_is_rejected_with_both_locations(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"x.txt": b"1", "y.txt": b"2"}, {"x.txt": b"3", "y.json": b"4"}))

    with pytest.raises(SampleFailed, match=r"shard shard-0.tar, index 0 and shard shard-1.tar, index 2") as raised:
        store.get("x.txt")

    assert raised.value.code == "WDS551"
    assert store.get("y.txt") == "2", "only one of the two samples has this part"


def test_last_of_duplicate_parts_is_read(tmp_path: Path) -> None:
    from tests.build import a_shard

    tars(tmp_path, {"a.tar": a_shard([("x.txt", b"first"), ("x.txt", b"last")])})
    index(str(tmp_path))

    assert open_prepared_store(str(tmp_path)).get("x.txt") == "last"


def test_undecodable_entry_is_reported_with_store_shard_and_name(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, {"a.png": b"no image", "b.json": b"{"})

    for name in ("a.png", "b.json"):
        with pytest.raises(SampleFailed) as raised:
            open_prepared_store(root).get(name)
        assert raised.value.where.startswith(f"store {root}, shard shard-0.tar, entry {name}, part")


def test_changed_shard_is_rejected(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, FILES))
    rewrite_shard(tmp_path / "shard-0.tar", {**FILES, "z.txt": b"more" * 4000})

    with pytest.raises(StorageError) as raised:
        store.get("a/1.txt")

    assert raised.value.code == "WDS403"
    assert "store" in raised.value.where


def test_open_store_keeps_its_generation(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    before = open_prepared_store(root)
    tars(tmp_path, {"shard-9.tar": {"new.txt": b"new"}})
    index(root)

    assert "new.txt" not in before
    assert "new.txt" in open_prepared_store(root)
    assert before.digest != open_prepared_store(root).digest


def test_missing_store_raises_storage_down_but_missing_shard_does_not(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"a.txt": b"a"}, {"b.txt": b"b"}, {"c.txt": b"c"}))
    (tmp_path / "shard-0.tar").unlink()
    with pytest.raises(StorageError) as one:
        store.get("a.txt")
    for each in tmp_path.glob("*.tar"):
        each.unlink()
    with pytest.raises(StorageDown):
        store.get("b.txt")

    assert not isinstance(one.value, StorageDown)


def test_store_pickles_by_reference_with_generation(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    store = open_prepared_store(root)
    pickled = pickle.dumps(store)
    tars(tmp_path, {"shard-9.tar": {"new.txt": b"new"}})
    index(root)
    unpickled = pickle.loads(pickled)  # noqa: S301 - our own

    assert len(pickled) < 2000
    assert unpickled.get("a/2.txt") == "two"
    assert "new.txt" not in unpickled


def test_unpickled_store_rejects_missing_generation(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    pickled = pickle.dumps(open_prepared_store(root))
    for i in range(4):
        tars(tmp_path, {f"more-{i}.tar": {f"new{i}.txt": b"new"}})
        index(root)

    with pytest.raises(StateMismatch, match="the auxiliary store no longer has generation 1"):
        pickle.loads(pickled)  # noqa: S301 - our own


def test_jsonl_entries_have_no_media_metadata(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jsonl": b'{"x": 1}\n'})
    index(root)
    with pytest.raises(SampleFailed, match="no media facts for 'a/0") as caught:
        open_prepared_store(root).get_media_metadata("a/0.json")
    assert caught.value.code == "WDS553"


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_media_metadata_is_read_from_catalog(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    with pytest.raises(SampleFailed) as unknown:
        open_prepared_store(root).get_media_metadata("a/1.seg.png")
    index(root, media=MediaRequest(selection="auto"))
    facts = open_prepared_store(root).get_media_metadata("a/1.seg.png")

    assert (unknown.value.code, isinstance(facts, ImageFacts)) == ("WDS553", True)
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (48, 32)


def test_media_metadata_names_command_that_adds_sample_rows(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    index(root, media=MediaRequest(selection="auto"), sample_rows=False)
    with pytest.raises(CatalogError) as raised:
        open_prepared_store(root).get_media_metadata("a/1.seg.png")
    index(root, sample_rows=True)

    assert (raised.value.code, f"index {root} --sample-rows" in raised.value.hint) == ("WDS307", True)
    assert isinstance(open_prepared_store(root).get_media_metadata("a/1.seg.png"), ImageFacts)


@pytest.mark.usefixtures("faulty_store")
def test_store_at_url_reads_entry_with_one_range(tmp_path: Path) -> None:
    tars(tmp_path / "here", {"a.tar": FILES})
    url = upload_shards(tmp_path / "here", "faulty://bucket/media")
    index(url)
    store = open_store(url, SampleDecoder())
    FaultyFileSystem.reads.clear()

    data, source = store["a/2.txt"]

    assert (data, source.shard_name, source.dataset_path) == ("two", "a.tar", url)
    assert [stop - start for _, start, stop in FaultyFileSystem.reads] == [3]


@pytest.mark.parametrize("kind", ["tars", "folder"])
def test_video_of_store_is_decoded_by_ranges(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_video("matroska", "mpeg4", times=range(240), size=(320, 240))
    in_tars = a_tar_store(tmp_path / "tars", {"film.mkv": data})
    in_folder = a_folder(tmp_path / "folder", {"film.mkv": data})
    store = open_reference(in_tars if kind == "tars" else f"filesystem://{in_folder}")
    read_sizes = sizes_read(monkeypatch)
    decoder = store.get("film.mkv")
    assert (type(decoder), read_sizes) == (AVDecoder, [])

    clips = [each.get_video_clips([(1.0, 1.5)])[0][0] for each in (decoder, AVDecoder(data))]
    unpickled = pickle.loads(pickle.dumps(decoder))  # noqa: S301 - our own

    assert 0 < sum(read_sizes) < len(data) / 2
    assert torch.equal(*clips)
    assert torch.equal(unpickled.get_video_clips([(1.0, 1.5)])[0][0], clips[0])


@pytest.mark.parametrize("kind", ["tars", "folder"])
def test_video_of_store_uses_keyframes_of_catalog(tmp_path: Path, kind: str) -> None:
    files = {"film.mkv": make_video("matroska", "mpeg4")}
    request = MediaRequest(selection="auto", keyframes=True)
    if kind == "tars":
        reference = a_tar_store(tmp_path, files)
        index(reference, media=request)
    else:
        reference = a_folder(tmp_path, files)
        index_media_folder(reference, media=request)
    decoder = open_reference(reference).get("film.mkv")

    (clip,), _ = decoder.get_video_clips([(24, 30)], video_unit="frames")
    (expected,), _ = AVDecoder(files["film.mkv"]).get_video_clips([(24, 30)], video_unit="frames")
    assert decoder._video._index is not None
    assert torch.equal(clip, expected)


def test_jsonl_entries_are_found_by_key_and_parsed(tmp_path: Path) -> None:
    lines = [{"id": f"photo.{i}", "n": i} for i in range(5)]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    prepare(str(path), None, PrepareRequest())
    by_number = open_prepared_store(str(path))
    prepare(str(path), None, PrepareRequest(index=IndexRequest(key="id")))
    by_field = open_prepared_store(str(path))

    assert by_number.get("3") == by_number.get("3.json") == by_field.get("photo.3") == lines[3]
    assert "3" not in by_field
    first, size = by_number["3"][1].byte_range or (0, 0)
    assert json.loads(path.read_bytes()[first : first + size]) == lines[3]
