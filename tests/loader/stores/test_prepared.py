"""Entries of a prepared dataset are found by their names, and read by one range."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from tests.build import a_dataset as tars
from tests.build import a_folder, an_image, rewritten
from tests.loader.decoding.av.media import film
from tests.loader.stores.stores import a_tar_store, opened, prepared
from tests.opened import sizes_read
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.errors import SampleFailed, StateMismatch, StorageDown, StorageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import AVDecoder, CrudeSample, LazyPart, SampleDecoder
from wdsctl.loader.stores import open_store

FILES = {"a/1.txt": b"one", "a/1.seg.png": an_image("PNG"), "a/2.txt": b"two", "b.v2/3.json": b'{"x": 1}'}


@pytest.mark.usefixtures("place")
def test_an_entry_is_decoded_by_its_ending(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, FILES))

    assert store.get("a/2.txt") == "two"
    assert store.get("b.v2/3.json") == {"x": 1}
    assert tuple(store.get("a/1.seg.png").shape) == (3, 32, 48)


def test_without_a_decoder_entries_are_bytes(tmp_path: Path) -> None:
    assert prepared(a_tar_store(tmp_path, FILES), decoder=None).get("b.v2/3.json") == b'{"x": 1}'


def test_where_an_entry_came_from_is_said_to_the_byte(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    data, source = prepared(root)["a/2.txt"]

    first, size = source.byte_range or (0, 0)
    assert (data, source.dataset_path, source.shard_name, source.file_names) == (
        "two",
        root,
        "shard-0.tar",
        ("a/2.txt",),
    )
    assert (tmp_path / "shard-0.tar").read_bytes()[first : first + size] == b"two"


def test_a_sample_that_is_given_has_the_source_added(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, FILES))
    sample = CrudeSample(__sources__=())

    for _ in range(2):  # the same entry is one source
        store.get("a/2.txt", sample)
    store.get("a/1.txt", sample)

    assert [source.file_names for source in sample["__sources__"]] == [("a/2.txt",), ("a/1.txt",)]


def test_a_key_alone_is_its_whole_sample(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, FILES))
    data, source = store["a/1"]

    assert data["txt"] == "one"
    assert tuple(data["seg.png"].shape) == (3, 32, 48)
    assert source.file_names == ("a/1.txt", "a/1.seg.png")


@pytest.mark.usefixtures("place")
def test_a_handle_reads_only_what_it_is_asked_for(tmp_path: Path) -> None:
    handle = prepared(a_tar_store(tmp_path, FILES)).open("a/2.txt")

    assert isinstance(handle, LazyPart)
    assert (len(handle), handle.read(1, 2)) == (3, b"wo")


def test_names_are_in_a_store_or_not(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, FILES))

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
def test_a_name_that_is_not_there_is_told_with_what_it_may_mean(tmp_path: Path, name: str, hint: str) -> None:
    root = a_tar_store(tmp_path, FILES)
    with pytest.raises(SampleFailed) as raised:
        prepared(root).get(name)

    assert raised.value.code == "WDS550"
    assert raised.value.where == f"store {root}, entry {name}"
    assert hint in raised.value.hint


@pytest.mark.usefixtures("place")
def test_a_name_that_is_there_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, {"x.txt": b"1", "y.txt": b"2"}, {"x.txt": b"3", "y.json": b"4"}))

    with pytest.raises(SampleFailed, match=r"shard shard-0.tar, index 0 and shard shard-1.tar, index 2") as raised:
        store.get("x.txt")

    assert raised.value.code == "WDS551"
    assert store.get("y.txt") == "2", "only one of the two samples has this part"


def test_of_a_part_that_a_sample_has_twice_the_last_one_counts(tmp_path: Path) -> None:
    from tests.build import a_shard

    tars(tmp_path, {"a.tar": a_shard([("x.txt", b"first"), ("x.txt", b"last")])})
    index(str(tmp_path))

    assert prepared(str(tmp_path)).get("x.txt") == "last"


def test_what_cannot_be_decoded_is_named_with_store_shard_and_entry(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, {"a.png": b"no image", "b.json": b"{"})

    for name in ("a.png", "b.json"):
        with pytest.raises(SampleFailed) as raised:
            prepared(root).get(name)
        assert raised.value.where.startswith(f"store {root}, shard shard-0.tar, entry {name}, part")


def test_a_shard_that_has_changed_is_refused(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, FILES))
    rewritten(tmp_path / "shard-0.tar", {**FILES, "z.txt": b"more" * 4000})

    with pytest.raises(StorageError) as raised:
        store.get("a/1.txt")

    assert raised.value.code == "WDS403"
    assert "store" in raised.value.where


def test_a_store_stays_what_it_was_when_it_was_opened(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    before = prepared(root)
    tars(tmp_path, {"shard-9.tar": {"new.txt": b"new"}})
    index(root)

    assert "new.txt" not in before
    assert "new.txt" in prepared(root)
    assert before.digest != prepared(root).digest


def test_a_store_that_is_gone_ends_the_run_and_a_shard_that_is_gone_does_not(tmp_path: Path) -> None:
    store = prepared(a_tar_store(tmp_path, {"a.txt": b"a"}, {"b.txt": b"b"}, {"c.txt": b"c"}))
    (tmp_path / "shard-0.tar").unlink()
    with pytest.raises(StorageError) as one:
        store.get("a.txt")
    for each in tmp_path.glob("*.tar"):
        each.unlink()
    with pytest.raises(StorageDown):
        store.get("b.txt")

    assert not isinstance(one.value, StorageDown)


def test_a_store_pickles_by_reference_in_its_generation(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    store = prepared(root)
    sent = pickle.dumps(store)
    tars(tmp_path, {"shard-9.tar": {"new.txt": b"new"}})
    index(root)
    arrived = pickle.loads(sent)  # noqa: S301 - our own

    assert len(sent) < 2000
    assert arrived.get("a/2.txt") == "two"
    assert "new.txt" not in arrived


def test_a_store_whose_generation_is_gone_says_so_where_it_arrives(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    sent = pickle.dumps(prepared(root))
    for i in range(4):
        tars(tmp_path, {f"more-{i}.tar": {f"new{i}.txt": b"new"}})
        index(root)

    with pytest.raises(StateMismatch, match="the auxiliary store no longer has generation 1"):
        pickle.loads(sent)  # noqa: S301 - our own


def test_nothing_is_known_of_lines_as_media(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jsonl": b'{"x": 1}\n'})
    index(root)
    with pytest.raises(SampleFailed, match="no media facts for 'a/0") as caught:
        prepared(root).get_media_metadata("a/0.json")
    assert caught.value.code == "WDS553"


@pytest.mark.usefixtures("place")
def test_facts_of_media_come_from_the_catalog(tmp_path: Path) -> None:
    root = a_tar_store(tmp_path, FILES)
    with pytest.raises(SampleFailed) as unknown:
        prepared(root).get_media_metadata("a/1.seg.png")
    index(root, media=MediaRequest(selection="auto"))
    facts = prepared(root).get_media_metadata("a/1.seg.png")

    assert (unknown.value.code, isinstance(facts, ImageFacts)) == ("WDS553", True)
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (48, 32)


@pytest.mark.usefixtures("faulty_store")
def test_a_store_at_a_url_is_read_by_one_range(tmp_path: Path) -> None:
    tars(tmp_path / "here", {"a.tar": FILES})
    url = uploaded(tmp_path / "here", "faulty://bucket/media")
    index(url)
    store = open_store(url, SampleDecoder())
    FaultyFileSystem.reads.clear()

    data, source = store["a/2.txt"]

    assert (data, source.shard_name, source.dataset_path) == ("two", "a.tar", url)
    assert [stop - start for _, start, stop in FaultyFileSystem.reads] == [3]


@pytest.mark.parametrize("kind", ["tars", "folder"])
def test_a_film_is_decoded_by_ranges_of_its_store(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = film("matroska", "mpeg4", times=range(240), size=(320, 240))
    in_tars = a_tar_store(tmp_path / "tars", {"film.mkv": data})
    in_folder = a_folder(tmp_path / "folder", {"film.mkv": data})
    store = opened(in_tars if kind == "tars" else f"filesystem://{in_folder}")
    fetched = sizes_read(monkeypatch)
    decoder = store.get("film.mkv")
    assert (type(decoder), fetched) == (AVDecoder, [])

    clips = [each.get_video_clips([(1.0, 1.5)])[0][0] for each in (decoder, AVDecoder(data))]
    sent = pickle.loads(pickle.dumps(decoder))  # noqa: S301 - our own

    assert 0 < sum(fetched) < len(data) / 2
    assert torch.equal(*clips)
    assert torch.equal(sent.get_video_clips([(1.0, 1.5)])[0][0], clips[0])


@pytest.mark.parametrize("kind", ["tars", "folder"])
def test_the_keyframes_that_the_catalog_knows_are_used(tmp_path: Path, kind: str) -> None:
    files = {"film.mkv": film("matroska", "mpeg4")}
    request = MediaRequest(selection="auto", keyframes=True)
    if kind == "tars":
        reference = a_tar_store(tmp_path, files)
        index(reference, media=request)
    else:
        reference = a_folder(tmp_path, files)
        index_media_folder(reference, media=request)
    decoder = opened(reference).get("film.mkv")

    (clip,), _ = decoder.get_video_clips([(24, 30)], video_unit="frames")
    (same,), _ = AVDecoder(files["film.mkv"]).get_video_clips([(24, 30)], video_unit="frames")
    assert decoder._video._index is not None
    assert torch.equal(clip, same)


def test_lines_of_json_are_found_by_their_keys_and_are_objects(tmp_path: Path) -> None:
    lines = [{"id": f"photo.{i}", "n": i} for i in range(5)]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    prepare(str(path), None, PrepareRequest())
    by_number = prepared(str(path))
    prepare(str(path), None, PrepareRequest(index=IndexRequest(key="id")))
    by_field = prepared(str(path))

    assert by_number.get("3") == by_number.get("3.json") == by_field.get("photo.3") == lines[3]
    assert "3" not in by_field
    first, size = by_number["3"][1].byte_range or (0, 0)
    assert json.loads(path.read_bytes()[first : first + size]) == lines[3]
