"""A part over 64 MB is a LazyPart: only the requested bytes are read, and none before the first request."""

from __future__ import annotations

import pickle
import tarfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw
from tests.open_files import open_files
from wdsctl.core.errors import StorageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.loader import AVDecoder, DefaultTaskEncoder, LazyPart, SampleDecoder, get_loader, get_train_dataset
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES

SIZE = LAZY_PART_BYTES + 1000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One sample with a video of just over 64 MB in a sparse file."""
    root = tmp_path_factory.mktemp("large")
    with open(root / "a.tar", "wb") as file:
        for name, size, data in (("a.txt", 4, b"text"), ("a.mp4", SIZE, b""), ("a.json", 2, b"{}")):
            member = tarfile.TarInfo(name)
            member.size = size
            file.write(member.tobuf(tarfile.USTAR_FORMAT))
            file.write(data)
            file.seek(size - len(data) + -size % 512, 1)
        file.write(bytes(1024))
    with open(root / "a.tar", "r+b") as file:
        file.seek(1536)
        file.write(b"begin")
        file.seek(1536 + SIZE - 3)
        file.write(b"end")
    prepare(str(root), None, PrepareRequest(sample_type="CrudeSample"))
    return str(root)


class BytesOfMedia(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(av_decode=None)


@pytest.mark.parametrize("encoder", [Raw(), BytesOfMedia()], ids=["bytes", "decoded"])
def test_part_over_64_mb_becomes_lazy_part(encoder: Any, dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=encoder)), 1)

    video = sample["mp4"]
    assert sample["txt"] in (b"text", "text")
    assert sample["json"] in (b"{}", {})
    assert isinstance(video, LazyPart)
    assert len(video) == SIZE
    assert video.read(0, 5) == b"begin"
    assert video.read(SIZE - 3) == b"end"
    assert video.read(SIZE - 1, 100) == b"d"
    assert video.read(SIZE + 7, 1) == b""
    assert len(video.read()) == SIZE
    assert repr(video) == f"LazyPart({str(Path(dataset) / 'a.tar')!r}, offset=1536, size={SIZE})"


def test_batch_contains_lazy_parts(dataset: str) -> None:
    (batch,) = islice(get_loader(get_train_dataset(dataset, batch_size=2, task_encoder=Raw())), 1)

    assert [part.read(0, 5) for part in batch["mp4"]] == [b"begin", b"begin"]


def test_lazy_part_of_truncated_file_raises(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"0123456789")
    part = LazyPart(str(tmp_path / "a.tar"), 5, 10, LocalStorage("/"))

    assert part.read(0, 5) == b"56789"
    with pytest.raises(StorageError) as raised:
        part.read()
    assert raised.value.code == "WDS403"
    assert str(tmp_path) in raised.value.where


def test_pickled_lazy_part_reopens_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"0123456789")
    part = LazyPart(str(tmp_path / "a.tar"), 2, 5, LocalStorage("/"), shard_size=10)
    assert part.read() == b"23456"  # its storage has a descriptor now, which means nothing to another process

    unpickled = pickle.loads(pickle.dumps(part))  # noqa: S301 - our own

    assert (unpickled.read(), repr(unpickled)) == (b"23456", repr(part))
    before = open_files(str(tmp_path))
    unpickled.release()
    assert len(open_files(str(tmp_path))) == len(before) - 1
    assert unpickled.read(1, 2) == b"34"


def test_pickled_lazy_part_keeps_shard_size(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"0123456789")
    part = pickle.loads(pickle.dumps(LazyPart(str(tmp_path / "a.tar"), 2, 5, LocalStorage("/"), shard_size=9)))  # noqa: S301 - our own

    with pytest.raises(StorageError) as raised:
        part.read()
    assert raised.value.code == "WDS403"


def test_large_video_becomes_av_decoder(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset)), 1)

    assert isinstance(sample["mp4"], AVDecoder)
    assert sample["txt"] == "text"
