"""Samples come out of shards as the field map says, and what cannot be read says where it is."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.loader.datasets import Parts, Raw, a_dataset, a_shard
from tests.loader.decoding.pictures import a_jpeg, a_png
from tests.loader.running import strict
from wdsctl.core.catalog.read import read_split
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, SampleFailed, StorageError
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.storage.storage import FileRange
from wdsctl.loader import DefaultTaskEncoder, SampleDecoder, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource

ALL_VAL = {"val": 1.0}


class DictStorage:
    """Files in memory. `fails_at`: the number of the read that the disk refuses."""

    def __init__(self, files: Mapping[str, bytes], fails_at: int = 0) -> None:
        self.files = files
        self.fails_at = fails_at
        self.reads = 0
        self.hints: list[FileRange] = []

    def size(self, path: str) -> int:
        return len(self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files

    def root_of(self, path: str) -> str:
        return ""

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.reads += 1
        if self.reads == self.fails_at:
            raise StorageError("the disk failed", where=path, hint="try again")
        return self.files[path][offset : offset + size]

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        memory[:] = self.read(path, offset, len(memory))

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def will_need(self, ranges: Iterable[FileRange]) -> None:
        self.hints += ranges

    def close(self) -> None:
        self.files = {}


def source_of(root: str, storage: DictStorage | None = None, decoder: SampleDecoder | None = None) -> SplitSource:
    place = locate(root)
    offsets = Offsets(place.offsets_path(1))
    selection = SampleSelection(offsets, read_split(place.catalog, "val"))
    return SplitSource(root, offsets, selection, load_config(place.dataset_yaml), decoder, storage=storage)


def in_memory(root: str, fails_at: int = 0) -> DictStorage:
    return DictStorage({str(path): path.read_bytes() for path in Path(root).glob("*.tar")}, fails_at)


def samples_of(root: str, encoder: Any = None) -> list[Any]:
    return list(get_loader(get_val_dataset(root, task_encoder=encoder, worker_config=strict())))


def typed(root: Path, parts: Any, count: int = 6, **field_map: str) -> str:
    kind = field_map.pop("sample_type")
    return a_dataset(root, count, shard_samples=3, parts=parts, sample_type=kind, field_map=field_map, split=ALL_VAL)


def test_a_source_of_a_view_is_told_of_its_split_when_it_is_made(tmp_path: Path) -> None:
    root = typed(tmp_path, lambda i: {"txt": b"%d" % i}, sample_type="TextSample", text="txt")
    place = locate(root)
    offsets = Offsets(place.offsets_path(1))
    parts = read_split(place.catalog, "val")
    whole, some = SampleSelection(offsets, parts), SampleSelection(offsets, parts[:1])
    config = load_config(place.dataset_yaml)

    plain = SplitSource(root, offsets, some, config, None)
    viewed = SplitSource(root, offsets, some, config, None, view_hash="0123", full_selection=whole, is_member=True)

    assert (plain.view_hash, plain.full_selection, plain.is_member, plain.split_digest) == (
        "",
        some,
        False,
        plain.digest,
    )
    assert (viewed.view_hash, viewed.full_selection, viewed.is_member) == ("0123", whole, True)
    assert viewed.split_digest == whole.digest(offsets) != viewed.digest


def test_fields_come_out_of_parts_and_of_json(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image %d" % i, "json": json.dumps({"q": [{"text": f"why {i}"}], "a": [i, None]}).encode()}

    root = typed(tmp_path, parts, sample_type="VQASample", image="jpg", context="json[q][0][text]", answers="json[a]")

    samples = samples_of(root, Raw())

    assert [(s.image, s.context, s.answers) for s in samples] == [
        (b"image %d" % i, f"why {i}", [i, None]) for i in range(6)
    ]
    assert [s.__key__ for s in samples] == [f"{i:06}" for i in range(6)]
    assert [s.__sources__[0].shard_name for s in samples] == ["shard-000.tar"] * 3 + ["shard-001.tar"] * 3
    assert samples[4].__sources__[0].file_names == ("000004.jpg", "000004.json")


def test_samples_and_batches_without_labels_can_be_asked_for_one(tmp_path: Path) -> None:
    root = typed(tmp_path, lambda i: {"txt": b"%d" % i}, sample_type="TextSample", text="txt")

    assert [sample.__subflavors__ for sample in samples_of(root)] == [{}] * 6
    assert next(iter(get_loader(get_val_dataset(root, batch_size=6)))).__subflavors__ == [{}] * 6


def test_of_alternatives_each_sample_gives_the_first_that_it_has(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        image: Parts = {0: {"jpg": b"jpg"}, 1: {"png": b"png"}, 2: {"png": b"png", "jpg": b"jpg"}}[i % 3]
        return {**image, "txt": b"text"}

    root = typed(tmp_path, parts, sample_type="CaptioningSample", image="jpg,png", caption="txt")

    assert [s.image for s in samples_of(root, Raw())] == [b"jpg", b"png", b"jpg"] * 2


def said_optional(root: str, name: str) -> None:
    yaml = Path(locate(root).dataset_yaml)
    yaml.write_text(f"{yaml.read_text()}optional: [{name}]\n")


def test_an_optional_field_is_none_where_a_sample_has_no_part_for_it(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "cls": b"%d" % i} if i % 2 else {"jpg": b"image"}

    root = typed(tmp_path, parts, sample_type="ImageClassificationSample", image="jpg", label="cls")
    said_optional(root, "label")

    class Numbers(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = None

        def encode_sample(self, sample: Any) -> Any:
            return "none" if sample.label is None else int(sample.label)

    assert samples_of(root, Numbers()) == ["none", 1, "none", 3, "none", 5]


def test_an_optional_field_is_none_where_its_json_lacks_the_key(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "json": json.dumps({"q": "why", **({"a": "so"} if i else {})}).encode()}

    root = typed(tmp_path, parts, 2, sample_type="VQASample", image="jpg", context="json[q]", answers="json[a]")
    said_optional(root, "answers")

    assert [s.answers for s in samples_of(root, Raw())] == [None, "so"]


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ({}, "no part for field 'label': expected json[label], found jpg"),
        ({"json": b'{"other": 1}'}, "cannot fill field 'label': "),
        ({"json": b'{"label": null}'}, "cannot fill field 'label': json[label] is null"),
    ],
)
def test_a_mapped_field_that_nobody_calls_optional_is_never_none(tmp_path: Path, lacking: Parts, said: str) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", **(lacking if i == 1 else {"json": b'{"label": %d}' % i})}

    fields = {"image": "jpg", "label": "json[label]"}
    root = typed(tmp_path, parts, 3, sample_type="ImageClassificationSample", **fields)
    source = source_of(root)
    with pytest.raises(SampleFailed, match=re.escape(said)) as raised:
        source.load(source.block(np.arange(3), np.zeros(3, np.int64)), 1)
    assert "optional: [label]" in raised.value.hint


@pytest.mark.parametrize("caption", ["txt", "json[text]"])
def test_a_sample_without_a_required_field_says_which_and_the_others_come(caption: str, tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        have: Parts = {"txt": b"text", "json": b'{"text": "text"}'}
        return {"jpg": b"image", **have} if i != 4 else {"jpg": b"image", "json": b'{"other": 1}'}

    root = typed(tmp_path, parts, sample_type="CaptioningSample", image="jpg", caption=caption)
    source = source_of(root)
    block = source.block(np.arange(6), np.zeros(6, np.int64))

    with pytest.raises(SampleFailed) as raised:
        source.load(block, 4)

    where = raised.value.where
    assert root in where
    assert "shard-001.tar" in where
    assert "000004" in where
    assert caption in raised.value.message
    assert "field 'caption'" in raised.value.message
    assert raised.value.hint
    assert [source.load(block, i).__key__ for i in (0, 1, 2, 3, 5)] == [f"{i:06}" for i in (0, 1, 2, 3, 5)]


def test_broken_json_names_its_sample(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "json": b'{"t": "x"}' if i != 1 else b"{broken"}

    root = typed(tmp_path, parts, 3, sample_type="CaptioningSample", image="jpg", caption="json[t]")
    source = source_of(root)
    block = source.block(np.arange(3), np.zeros(3, np.int64))

    with pytest.raises(DatasetError, match="is not JSON") as raised:
        source.load(block, 1)

    assert "key 000001" in str(raised.value)
    assert source.load(block, 2).caption == "x"


def test_an_image_that_cannot_be_decoded_names_dataset_shard_key_and_part(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": a_jpeg(seed=i) if i != 3 else a_jpeg()[:100], "txt": b"text"}

    root = typed(tmp_path, parts, sample_type="CaptioningSample", image="jpg", caption="txt")
    loader = get_loader(get_val_dataset(root, worker_config=strict()))

    with pytest.raises(SampleFailed) as raised:
        list(loader)

    assert raised.value.where == f"dataset {root}, shard shard-001.tar, key 000003, part 'jpg'"
    assert raised.value.code == "WDS503"
    assert loader.stats.batches == 3


def test_images_are_decoded_whatever_their_part(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"png": a_png(), "txt": b"text"} if i % 2 else {"jpg": a_jpeg(), "txt": b"text"}

    root = typed(tmp_path, parts, sample_type="CaptioningSample", image="jpg,png", caption="txt")

    assert {tuple(s.image.shape) for s in samples_of(root)} == {(3, 20, 30)}


def test_of_a_part_that_a_sample_has_twice_the_last_one_counts(tmp_path: Path) -> None:
    import io
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, data in (("a.txt", b"first"), ("a.json", b"{}"), ("a.txt", b"last"), ("b.txt", b"once")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    prepare(str(tmp_path), None, PrepareRequest(sample_type="CrudeSample", split=ALL_VAL))

    first, second = samples_of(str(tmp_path), Raw())

    assert (first["txt"], first["json"], second["txt"]) == (b"last", b"{}", b"once")


def numbers(i: int) -> Parts:
    return {"txt": b"text %d" % i}


def a_val_dataset(root: Path) -> str:
    return a_dataset(root, 9, shard_samples=3, parts=numbers, split=ALL_VAL)


def test_a_source_reads_through_its_storage_alone(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    storage = in_memory(root)
    for path in tmp_path.glob("*.tar"):
        path.unlink()
    source = source_of(root, storage)

    block = source.block(np.arange(9), np.zeros(9, np.int64))

    assert storage.reads == 0
    assert [source.load(block, i)["txt"] for i in range(9)] == [b"text %d" % i for i in range(9)]
    assert storage.reads == 9


def test_a_disk_that_fails_once_names_the_sample_and_the_next_try_reads_it(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    source = source_of(root, in_memory(root, fails_at=3))
    block = source.block(np.arange(9), np.zeros(9, np.int64))
    read = [source.load(block, i)["txt"] for i in range(2)]

    with pytest.raises(StorageError, match="the disk failed") as raised:
        source.load(block, 2)

    assert raised.value.where.startswith(f"dataset {root}, shard shard-000.tar, key 000002, ")
    assert isinstance(raised.value.__cause__, StorageError)
    assert [*read, source.load(block, 2)["txt"]] == [b"text 0", b"text 1", b"text 2"]


def test_ahead_are_asked_for_so_many_bytes_at_most(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    storage = in_memory(root)
    source = source_of(root, storage)
    slices = np.array([[0, 2], [3, 4], [7, 9]])

    source.will_need(slices, 1 << 20)
    everything, storage.hints = storage.hints, []
    source.will_need(slices, sum(each.size for each in everything[:2]))

    assert len(everything) == 3
    assert storage.hints == everything[:2]


@pytest.mark.parametrize("cut", [100, 512 * 7])
def test_a_shard_that_was_cut_short_says_so(cut: int, tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    os.truncate(tmp_path / "shard-001.tar", cut)
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=strict()))
    samples = iter(loader)
    before = list(islice(samples, 3))

    with pytest.raises(StorageError) as raised:
        next(samples)

    assert len(before) == 3
    assert raised.value.code == "WDS403"
    assert "shard-001.tar, key 000003" in raised.value.where
    assert "wdsctl" in raised.value.hint


def test_a_shard_that_is_cut_short_while_it_is_open_says_so(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=strict()))
    samples = iter(loader)
    list(islice(samples, 4))
    os.truncate(tmp_path / "shard-001.tar", 700)

    with pytest.raises(StorageError) as raised:
        next(samples)

    assert raised.value.code == "WDS403"
    assert "key 000004" in raised.value.where


def test_a_shard_that_was_replaced_by_another_is_not_read(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    a_shard(tmp_path / "shard-000.tar", ((f"{i:06}", {"txt": b"another " * 2000}) for i in range(3)))

    with pytest.raises(StorageError, match="when it was indexed") as raised:
        samples_of(root, Raw())

    assert raised.value.code == "WDS403"


def test_a_shard_that_is_gone_is_named_with_the_first_sample_in_it(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    (tmp_path / "shard-002.tar").rename(tmp_path / "away")
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=strict()))

    with pytest.raises(StorageError, match="No such file") as raised:
        list(loader)

    assert f"dataset {root}, shard shard-002.tar, key 000006" in raised.value.where
    (tmp_path / "away").rename(tmp_path / "shard-002.tar")
    assert len(list(loader)) == 9, "what was missing is read when it is there again"


def test_a_field_says_what_a_part_is_where_its_name_does_not(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (4, 3), (200, 10, 10)).save(picture, "PNG")
    parts = {"image": picture.getvalue(), "label.txt": b"7\n", "name": b"a red field"}
    fields = {"image": "image", "label": "label.txt", "label_name": "name"}
    path = a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type="ImageClassificationSample", field_map=fields)

    class Torch(DefaultTaskEncoder):
        decoder = SampleDecoder(image_decode="torchrgb8")

    batch = next(iter(get_loader(get_train_dataset(path, batch_size=4, task_encoder=Torch()))))

    assert batch.image.shape == (4, 3, 3, 4)
    assert (batch.label, batch.label_name) == ([7] * 4, ["a red field"] * 4)
