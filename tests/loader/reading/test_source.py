"""SplitSource builds samples by the field map, and its errors say which sample could not be read."""

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

from tests.core.catalog.readers import read_split
from tests.loader.datasets import Parts, Raw, a_dataset, a_shard
from tests.loader.decoding.pictures import a_jpeg, a_png
from tests.loader.running import raising_worker_config
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, SampleFailed, StorageError
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.storage.storage import FileRange
from wdsctl.loader import (
    CaptioningSample,
    DefaultTaskEncoder,
    SampleDecoder,
    edataclass,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    register_sample_type,
)
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource

ALL_VAL = {"val": 1.0}


class DictStorage:
    """Files in memory; read number `fails_at` raises StorageError."""

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
    selection = SampleSelection(offsets, read_split(place.catalog_path, "val"))
    return SplitSource(root, offsets, selection, load_config(place.config_path), decoder, storage=storage)


def load_shards(root: str, fails_at: int = 0) -> DictStorage:
    return DictStorage({str(path): path.read_bytes() for path in Path(root).glob("*.tar")}, fails_at)


def samples_of(root: str, encoder: Any = None) -> list[Any]:
    return list(get_loader(get_val_dataset(root, task_encoder=encoder, worker_config=raising_worker_config())))


def make_typed_dataset(root: Path, parts: Any, count: int = 6, **field_map: str) -> str:
    kind = field_map.pop("sample_type")
    return a_dataset(root, count, shard_samples=3, parts=parts, sample_type=kind, field_map=field_map, split=ALL_VAL)


def test_split_source_of_view_knows_its_full_selection(tmp_path: Path) -> None:
    root = make_typed_dataset(tmp_path, lambda i: {"txt": b"%d" % i}, sample_type="TextSample", text="txt")
    place = locate(root)
    offsets = Offsets(place.offsets_path(1))
    parts = read_split(place.catalog_path, "val")
    whole, some = SampleSelection(offsets, parts), SampleSelection(offsets, parts[:1])
    config = load_config(place.config_path)

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


def test_fields_are_read_from_parts_and_from_json_values(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image %d" % i, "json": json.dumps({"q": [{"text": f"why {i}"}], "a": [i, None]}).encode()}

    root = make_typed_dataset(
        tmp_path, parts, sample_type="VQASample", image="jpg", context="json[q][0][text]", answers="json[a]"
    )

    samples = samples_of(root, Raw())

    assert [(s.image, s.context, s.answers) for s in samples] == [
        (b"image %d" % i, f"why {i}", [i, None]) for i in range(6)
    ]
    assert [s.__key__ for s in samples] == [f"{i:06}" for i in range(6)]
    assert [s.__sources__[0].shard_name for s in samples] == ["shard-000.tar"] * 3 + ["shard-001.tar"] * 3
    assert samples[4].__sources__[0].file_names == ("000004.jpg", "000004.json")


def test_subflavors_of_samples_without_labels_are_empty(tmp_path: Path) -> None:
    root = make_typed_dataset(tmp_path, lambda i: {"txt": b"%d" % i}, sample_type="TextSample", text="txt")

    assert [sample.__subflavors__ for sample in samples_of(root)] == [{}] * 6
    assert next(iter(get_loader(get_val_dataset(root, batch_size=6)))).__subflavors__ == [{}] * 6


def test_field_uses_first_alternative_part_of_sample(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        image: Parts = {0: {"jpg": b"jpg"}, 1: {"png": b"png"}, 2: {"png": b"png", "jpg": b"jpg"}}[i % 3]
        return {**image, "txt": b"text"}

    root = make_typed_dataset(tmp_path, parts, sample_type="CaptioningSample", image="jpg,png", caption="txt")

    assert [s.image for s in samples_of(root, Raw())] == [b"jpg", b"png", b"jpg"] * 2


def make_optional(root: str, name: str) -> None:
    yaml = Path(locate(root).config_path)
    yaml.write_text(f"{yaml.read_text()}optional: [{name}]\n")


def test_optional_field_is_none_without_its_part(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "cls": b"%d" % i} if i % 2 else {"jpg": b"image"}

    root = make_typed_dataset(tmp_path, parts, sample_type="ImageClassificationSample", image="jpg", label="cls")
    make_optional(root, "label")

    class Numbers(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = None

        def encode_sample(self, sample: Any) -> Any:
            return "none" if sample.label is None else int(sample.label)

    assert samples_of(root, Numbers()) == ["none", 1, "none", 3, "none", 5]


@register_sample_type
@edataclass
class MaybeCaptionedSample(CaptioningSample):
    caption: str | None = None  # type: ignore[assignment]


def test_derived_type_makes_required_field_optional(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "txt": b"a caption"} if i else {"jpg": b"image"}

    root = make_typed_dataset(tmp_path, parts, 2, sample_type="CaptioningSample", image="jpg", caption="txt")
    yaml = Path(locate(root).config_path)
    own_type = f"sample_type: {__name__}:MaybeCaptionedSample"
    yaml.write_text(yaml.read_text().replace("sample_type: CaptioningSample", own_type))
    make_optional(root, "caption")

    assert [sample.caption for sample in samples_of(root, Raw())] == [None, b"a caption"]


def test_optional_field_is_none_without_its_json_key(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "json": json.dumps({"q": "why", **({"a": "so"} if i else {})}).encode()}

    root = make_typed_dataset(
        tmp_path, parts, 2, sample_type="VQASample", image="jpg", context="json[q]", answers="json[a]"
    )
    make_optional(root, "answers")

    assert [s.answers for s in samples_of(root, Raw())] == [None, "so"]


@pytest.mark.parametrize("value", ["5", "true", '["a"]', '{"a": 1}'])
def test_json_value_that_is_not_text_fails_sample(tmp_path: Path, value: str) -> None:
    parts: Parts = {"json": f'{{"t": {value}}}'.encode()}
    root = make_typed_dataset(tmp_path, lambda _: parts, 1, sample_type="TextSample", text="json[t]")

    with pytest.raises(SampleFailed, match=r"cannot fill field 'text': json\[t\] is .*, expected text"):
        samples_of(root, Raw())


@pytest.mark.parametrize(
    ("value", "label"), [("7", 7), ('"7"', 7), ('"-1"', -1), ("true", 1), ("false", 0), ("7.0", 7), ('"7.0"', 7)]
)
def test_json_booleans_and_numbers_in_text_fill_integer_field(tmp_path: Path, value: str, label: int) -> None:
    parts: Parts = {"jpg": b"image", "json": f'{{"n": {value}}}'.encode()}
    fields = {"image": "jpg", "label": "json[n]"}
    root = make_typed_dataset(tmp_path, lambda _: parts, 1, sample_type="ImageClassificationSample", **fields)

    [sample] = samples_of(root, Raw())
    assert (sample.label, type(sample.label)) == (label, int)


@pytest.mark.parametrize("value", ['"cat"', '"7.5"', "7.5", "1e300", "[7]", "{}"])
def test_json_value_that_is_no_whole_number_fails_sample(tmp_path: Path, value: str) -> None:
    parts: Parts = {"jpg": b"image", "json": f'{{"n": {value}}}'.encode()}
    fields = {"image": "jpg", "label": "json[n]"}
    root = make_typed_dataset(tmp_path, lambda _: parts, 1, sample_type="ImageClassificationSample", **fields)

    with pytest.raises(SampleFailed, match=r"cannot fill field 'label': json\[n\] is .*, expected a whole number"):
        samples_of(root, Raw())


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ({}, "no part for field 'label': expected json[label], found jpg"),
        ({"json": b'{"other": 1}'}, "cannot fill field 'label': "),
        ({"json": b'{"label": null}'}, "cannot fill field 'label': json[label] is null"),
    ],
)
def test_missing_required_field_fails_with_hint_about_optional(tmp_path: Path, lacking: Parts, message: str) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", **(lacking if i == 1 else {"json": b'{"label": %d}' % i})}

    fields = {"image": "jpg", "label": "json[label]"}
    root = make_typed_dataset(tmp_path, parts, 3, sample_type="ImageClassificationSample", **fields)
    source = source_of(root)
    with pytest.raises(SampleFailed, match=re.escape(message)) as raised:
        source.load(source.block(np.arange(3), np.zeros(3, np.int64)), 1)
    assert "optional: [label]" in raised.value.hint


@pytest.mark.parametrize("caption", ["txt", "json[text]"])
def test_missing_required_field_fails_only_its_sample(caption: str, tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        text_parts: Parts = {"txt": b"text", "json": b'{"text": "text"}'}
        return {"jpg": b"image", **text_parts} if i != 4 else {"jpg": b"image", "json": b'{"other": 1}'}

    root = make_typed_dataset(tmp_path, parts, sample_type="CaptioningSample", image="jpg", caption=caption)
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


def test_invalid_json_is_reported_with_sample_key(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": b"image", "json": b'{"t": "x"}' if i != 1 else b"{broken"}

    root = make_typed_dataset(tmp_path, parts, 3, sample_type="CaptioningSample", image="jpg", caption="json[t]")
    source = source_of(root)
    block = source.block(np.arange(3), np.zeros(3, np.int64))

    with pytest.raises(DatasetError, match="is not JSON") as raised:
        source.load(block, 1)

    assert "key 000001" in str(raised.value)
    assert source.load(block, 2).caption == "x"


def test_undecodable_image_is_reported_with_dataset_shard_key_and_part(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"jpg": a_jpeg(seed=i) if i != 3 else a_jpeg()[:100], "txt": b"text"}

    root = make_typed_dataset(tmp_path, parts, sample_type="CaptioningSample", image="jpg", caption="txt")
    loader = get_loader(get_val_dataset(root, worker_config=raising_worker_config()))

    with pytest.raises(SampleFailed) as raised:
        list(loader)

    assert raised.value.where == f"dataset {root}, shard shard-001.tar, key 000003, part 'jpg'"
    assert raised.value.code == "WDS503"
    assert loader.stats.batches == 3


def test_images_are_decoded_from_any_alternative_part(tmp_path: Path) -> None:
    def parts(i: int) -> Parts:
        return {"png": a_png(), "txt": b"text"} if i % 2 else {"jpg": a_jpeg(), "txt": b"text"}

    root = make_typed_dataset(tmp_path, parts, sample_type="CaptioningSample", image="jpg,png", caption="txt")

    assert {tuple(s.image.shape) for s in samples_of(root)} == {(3, 20, 30)}


def test_last_of_duplicate_parts_is_read(tmp_path: Path) -> None:
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


def test_split_source_reads_only_through_its_storage(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    storage = load_shards(root)
    for path in tmp_path.glob("*.tar"):
        path.unlink()
    source = source_of(root, storage)

    block = source.block(np.arange(9), np.zeros(9, np.int64))

    assert storage.reads == 0
    assert [source.load(block, i)["txt"] for i in range(9)] == [b"text %d" % i for i in range(9)]
    assert storage.reads == 9


def test_failed_read_reports_sample_and_can_be_retried(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    source = source_of(root, load_shards(root, fails_at=3))
    block = source.block(np.arange(9), np.zeros(9, np.int64))
    loaded = [source.load(block, i)["txt"] for i in range(2)]

    with pytest.raises(StorageError, match="the disk failed") as raised:
        source.load(block, 2)

    assert raised.value.where.startswith(f"dataset {root}, shard shard-000.tar, key 000002, ")
    assert isinstance(raised.value.__cause__, StorageError)
    assert [*loaded, source.load(block, 2)["txt"]] == [b"text 0", b"text 1", b"text 2"]


def test_will_need_limits_prefetched_bytes(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    storage = load_shards(root)
    source = source_of(root, storage)
    slices = np.array([[0, 2], [3, 4], [7, 9]])

    source.will_need(slices, 1 << 20)
    everything, storage.hints = storage.hints, []
    source.will_need(slices, sum(each.size for each in everything[:2]))

    assert len(everything) == 3
    assert storage.hints == everything[:2]


@pytest.mark.parametrize("cut", [100, 512 * 7])
def test_truncated_shard_is_reported(cut: int, tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    os.truncate(tmp_path / "shard-001.tar", cut)
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=raising_worker_config()))
    samples = iter(loader)
    before = list(islice(samples, 3))

    with pytest.raises(StorageError) as raised:
        next(samples)

    assert len(before) == 3
    assert raised.value.code == "WDS403"
    assert "shard-001.tar, key 000003" in raised.value.where
    assert "wdsctl" in raised.value.hint


def test_shard_truncated_while_open_is_reported(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=raising_worker_config()))
    samples = iter(loader)
    list(islice(samples, 4))
    os.truncate(tmp_path / "shard-001.tar", 700)

    with pytest.raises(StorageError) as raised:
        next(samples)

    assert raised.value.code == "WDS403"
    assert "key 000004" in raised.value.where


def test_replaced_shard_is_rejected(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    a_shard(tmp_path / "shard-000.tar", ((f"{i:06}", {"txt": b"another " * 2000}) for i in range(3)))

    with pytest.raises(StorageError, match="when it was indexed") as raised:
        samples_of(root, Raw())

    assert raised.value.code == "WDS403"


def test_missing_shard_is_reported_with_its_first_sample(tmp_path: Path) -> None:
    root = a_val_dataset(tmp_path)
    (tmp_path / "shard-002.tar").rename(tmp_path / "away")
    loader = get_loader(get_val_dataset(root, task_encoder=Raw(), worker_config=raising_worker_config()))

    with pytest.raises(StorageError, match="No such file") as raised:
        list(loader)

    assert f"dataset {root}, shard shard-002.tar, key 000006" in raised.value.where
    (tmp_path / "away").rename(tmp_path / "shard-002.tar")
    assert len(list(loader)) == 9, "what was missing is read when it is there again"


def test_field_type_determines_decoding_of_part_without_known_extension(tmp_path: Path) -> None:
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
