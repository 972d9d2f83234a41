"""The keyframes that a catalog knows, compiled for processes that open no catalog."""

from __future__ import annotations

import os
from pathlib import Path

from tests.build import a_dataset, a_shard
from tests.core.films import a_film
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.catalog.keyframe_file import KeyframeFile, open_keyframes
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.offsets.read import Offsets

KEYFRAMES = MediaRequest(selection="auto", keyframes=True)
FILM = a_film("matroska", video="mpeg4")


def films_of(root: Path, generation: int = 1) -> KeyframeFile | None:
    return open_keyframes(locate(str(root)), generation)


def some_films(root: Path) -> Path:
    """Two shards: films in two parts of their samples, and samples without one."""
    shorter = a_film("matroska", video="mpeg4", times=range(3))
    first = {"0.left.mkv": FILM, "0.mkv": shorter, "0.txt": b"0", "1.txt": b"1", "2.mkv": shorter}
    a_dataset(root, {"a.tar": first, "b.tar": {"3.mkv": FILM}})
    index(str(root), media=KEYFRAMES)
    return root


def test_a_film_is_found_by_the_id_of_its_sample_and_its_part(tmp_path: Path) -> None:
    films = films_of(some_films(tmp_path))

    assert films is not None
    with NameLookup(locate(str(tmp_path)).catalog) as names:
        for name in ("0.left.mkv", "0.mkv", "2.mkv", "3.mkv"):
            (place,) = names.find(name)
            assert films.find(place.sample, name.partition(".")[2]) == names.keyframes(place)
    assert KeyframeIndex.from_bytes(films.find(1 << 28, "left.mkv")).frames == 8
    assert KeyframeIndex.from_bytes(films.find(1 << 28, "mkv")).frames == 3


def test_what_is_no_film_is_not_found(tmp_path: Path) -> None:
    films = films_of(some_films(tmp_path))

    assert films is not None
    for sample, part in ((1 << 28, "txt"), (1 << 28, "webm"), ((1 << 28) + 1, "mkv"), (9 << 28, "mkv"), (-1, "mkv")):
        assert films.find(sample, part) == b""


def test_there_is_no_file_where_nobody_asked_or_there_is_no_film(tmp_path: Path) -> None:
    a_dataset(tmp_path, {"a.tar": {"0.txt": b"0"}})
    index(str(tmp_path))
    unasked = films_of(tmp_path)
    index(str(tmp_path), media=KEYFRAMES)

    assert (unasked, films_of(tmp_path)) == (None, None)
    assert not list((tmp_path / ".wdsctl").glob("keyframes-*"))


def test_it_is_made_once_and_mapped_from_then_on(tmp_path: Path) -> None:
    films_of(some_films(tmp_path))
    path = tmp_path / ".wdsctl" / "keyframes-1.bin"
    made = path.stat()

    films_of(tmp_path)

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)


def test_it_is_made_again_where_it_is_damaged_or_of_other_media(tmp_path: Path) -> None:
    path = some_films(tmp_path) / ".wdsctl" / "keyframes-1.bin"
    films_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    films_of(tmp_path)
    mended = path.read_bytes()
    index(str(tmp_path), media=MediaRequest(selection="left.mkv", keyframes=True))
    films = films_of(tmp_path)

    assert mended == whole
    assert films is not None
    assert (bool(films.find(1 << 28, "left.mkv")), films.find(1 << 28, "mkv")) == (True, b"")


def test_the_film_of_a_shard_that_was_replaced_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    some_films(tmp_path)
    (tmp_path / "a.tar").write_bytes(a_shard({"0.mkv": a_film("matroska", video="mpeg4", times=range(5))}))
    index(str(tmp_path))
    films = films_of(tmp_path, 2)
    place = locate(str(tmp_path))
    ids = {shard.path: shard.id for shard in Offsets(place.offsets_path(2)).shards}

    assert films is not None
    assert films.find(1 << 28, "mkv") == b"", "that was the shard as it was"
    assert KeyframeIndex.from_bytes(films.find(ids["a.tar"] << 28, "mkv")).frames == 5
    assert films.find(ids["b.tar"] << 28, "mkv") == films.find(2 << 28, "mkv") != b""


def test_files_of_generations_that_are_gone_go_too(tmp_path: Path) -> None:
    some_films(tmp_path)
    meta = tmp_path / ".wdsctl"
    (meta / "keyframes-7.bin").write_bytes(b"")

    films_of(tmp_path)

    assert [path.name for path in sorted(meta.glob("keyframes-*"))] == ["keyframes-1.bin"]


def test_where_nothing_can_be_written_the_indexes_are_held_in_memory(tmp_path: Path) -> None:
    meta = some_films(tmp_path) / ".wdsctl"
    os.mkdir(meta / "keyframes-1.bin")  # a file cannot take its place, whoever asks

    films = films_of(tmp_path)

    assert films is not None
    assert KeyframeIndex.from_bytes(films.find(2 << 28, "mkv")).frames == 8
