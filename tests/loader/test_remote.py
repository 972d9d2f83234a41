"""Training from a store that is not mounted: the stream of the local dataset, byte for byte, in few requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, digest, numbered
from tests.loader.running import digests, strict
from tests.preparing import prepare_request
from tests.remote import FaultyFileSystem, impatient, s3_server, uploaded
from wdsctl.core.errors import SampleFailed, StorageError, UsageError, WdsctlError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset, get_val_dataset

URL = "faulty://store/shards"
SPLIT = {"train": 4, "val": 1}
pytestmark = pytest.mark.usefixtures("faulty_store")


def both(
    tmp_path: Path, url: str = URL, samples: int = 300, parts: Callable[[int], Parts] = numbered, **options: Any
) -> tuple[str, str]:
    """A dataset on a disk, and its copy in a store."""
    local = a_dataset(tmp_path / "local", samples, shard_samples=samples // 5, parts=parts, split=SPLIT, **options)
    uploaded(local, url)
    prepare(url, None, prepare_request(**{"sample_type": "CrudeSample", "split": SPLIT, **options}))
    return local, url


def a_training(path: str, encoder: Any = None, **options: Any) -> Any:
    encoder = encoder or DefaultTaskEncoder()
    return get_loader(get_train_dataset(path, batch_size=8, task_encoder=encoder, **{"lanes": 4, **options}))


@pytest.mark.parametrize("encoder", [Raw(), DefaultTaskEncoder()], ids=["bulk", "decoded"])
def test_the_stream_does_not_depend_on_where_the_dataset_lies(tmp_path: Path, encoder: Any) -> None:
    local, url = both(tmp_path)
    ours, theirs = (a_training(path, encoder, max_samples_per_sequence=8) for path in (local, url))

    assert digests(theirs, 70) == digests(ours, 70)
    assert theirs.config()["order"] == ours.config()["order"]


def test_a_split_by_sample_and_a_validation_give_what_the_local_ones_give(tmp_path: Path) -> None:
    local, url = both(tmp_path, split_by="sample")
    passes = [
        [digest(batch) for batch in get_loader(get_val_dataset(path, batch_size=7, task_encoder=Raw()))]
        for path in (local, url)
    ]

    assert len(passes[0]) == 9
    assert passes[0] == passes[1]


def test_a_state_that_was_saved_on_a_disk_goes_on_from_a_store_and_back(tmp_path: Path) -> None:
    local, url = both(tmp_path)
    whole = digests(a_training(local), 40)
    first = a_training(local)
    begun = digests(first, 11)

    second = a_training(url)
    second.load_state_dict(first.state_dict())
    begun += digests(second, 9)
    third = a_training(local)
    third.load_state_dict(second.state_dict())

    assert begun + digests(third, 20) == whole


def test_a_window_is_read_in_a_few_requests(tmp_path: Path) -> None:
    _, url = both(tmp_path, samples=600)
    loader = a_training(url, lanes=1, shuffle_buffer_size=240, max_samples_per_sequence=60)
    FaultyFileSystem.reads.clear()

    assert len(digests(loader, 240 // 8)) == 30
    assert len(FaultyFileSystem.reads) <= 9, "four slices of sixty, each in at most two shards, and the next window"


def test_parts_that_are_read_one_by_one_are_fetched_together_too(tmp_path: Path) -> None:
    def parts(i: int) -> dict[str, bytes]:
        return {"a.txt": f"a {i}".encode(), "bin": bytes(100 << 10), "b.txt": f"b {i}".encode()}

    fields = {"context": "a.txt", "answers": "b.txt", "image": "a.txt"}
    _, url = both(tmp_path, samples=120, parts=parts, sample_type="VQASample", field_map=fields)
    loader = a_training(url, Raw(), lanes=1, shuffle_buffer_size=48, max_samples_per_sequence=6)
    FaultyFileSystem.reads.clear()

    assert len(digests(loader, 6)) == 6
    assert len(FaultyFileSystem.reads) < 12, "and not two a sample"


def test_a_url_counts_as_remote(tmp_path: Path) -> None:
    local, url = both(tmp_path, samples=3000)

    assert a_training(local, lanes=1).config()["order"]["max_samples_per_sequence"] == 16
    assert a_training(url, lanes=1).config()["order"]["max_samples_per_sequence"] == 128


@pytest.mark.parametrize("damage", ["truncated", "longer"])
def test_a_shard_that_is_not_what_was_indexed_is_refused(tmp_path: Path, damage: str) -> None:
    _, url = both(tmp_path)
    filesystem, base = fsspec.url_to_fs(url)
    data = filesystem.cat_file(f"{base}/shard-000.tar")
    filesystem.pipe_file(f"{base}/shard-000.tar", data[:-512] if damage == "truncated" else data + bytes(512))

    with pytest.raises(WdsctlError) as caught:
        digests(a_training(url, Raw(), worker_config=strict()), 60)
    assert caught.value.code == "WDS403"
    assert "shard shard-000.tar" in caught.value.where
    assert URL in caught.value.where


def test_a_store_that_breaks_off_gives_an_error_and_then_the_same_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    local, url = both(tmp_path, samples=500)
    options = {"max_samples_per_sequence": 4, "shuffle_buffer_size": 8}
    whole = digests(a_training(local, Raw(), **options), 60)
    loader = a_training(url, Raw(), worker_config=strict(), **options)
    given = digests(loader, 5)
    stream = iter(loader)

    def gone(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise ConnectionResetError("reset by peer")

    FaultyFileSystem.fault.append(gone)
    with pytest.raises((StorageError, SampleFailed), match="does not respond"):  # after what was fetched ahead
        given.extend(map(digest, stream))
    FaultyFileSystem.fault.clear()

    assert given + digests(loader, 60 - len(given)) == whole


def test_views_of_a_url_are_refused() -> None:
    with pytest.raises(UsageError, match="URLs do not support"):
        get_train_dataset(URL, task_encoder=Raw(), raw="view")


def test_no_password_is_in_the_sources_of_a_sample(tmp_path: Path) -> None:
    local = a_dataset(tmp_path / "local", 20)
    url = uploaded(local, "memory://ann:secret@store/shards")
    prepare(url, None, PrepareRequest(sample_type="CrudeSample"))

    batch = next(iter(a_training(url)))

    assert {source.dataset_path for source in batch.__sources__} == {"memory://store/shards"}


def test_s3_gives_the_stream_of_the_disk_and_tells_of_a_changed_object(tmp_path: Path) -> None:
    with s3_server():
        local, url = both(tmp_path, "s3://bucket/train")
        options = {"max_samples_per_sequence": 8}

        assert digests(a_training(url, **options), 60) == digests(a_training(local, **options), 60)

        fsspec.filesystem("s3").pipe_file("bucket/train/shard-000.tar", b"something else")
        with pytest.raises(WdsctlError) as caught:
            digests(a_training(url, Raw(), worker_config=strict()), 60)
        assert caught.value.code == "WDS403"


def test_a_view_is_read_from_a_store_as_from_a_disk(tmp_path: Path) -> None:
    local, url = both(tmp_path)
    for root in (local, url):
        create_view(root, "odd", ViewDefinition(where="position % 2 = 1"))
    assert digests(a_training(f"{url}@odd"), 8) == digests(a_training(f"{local}@odd"), 8)
