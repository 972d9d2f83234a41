"""Training from a store that is not mounted gives the batches of the local dataset, byte for byte, in few requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, digest, numbered
from tests.loader.running import digests, raising_worker_config
from tests.prepare_requests import prepare_request
from tests.remote import FaultyFileSystem, remove_retry_pauses, s3_server, upload_shards
from wdsctl.core.errors import SampleFailed, StorageError, UsageError, WdsctlError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset, get_val_dataset

URL = "faulty://store/shards"
SPLIT = {"train": 4, "val": 1}
pytestmark = pytest.mark.usefixtures("faulty_store")


def local_and_remote(
    tmp_path: Path, url: str = URL, samples: int = 300, parts: Callable[[int], Parts] = numbered, **options: Any
) -> tuple[str, str]:
    """Create a dataset on disk and a copy in a store; return both paths."""
    local = a_dataset(tmp_path / "local", samples, shard_samples=samples // 5, parts=parts, split=SPLIT, **options)
    upload_shards(local, url)
    prepare(url, None, prepare_request(**{"sample_type": "CrudeSample", "split": SPLIT, **options}))
    return local, url


def a_training(path: str, encoder: Any = None, **options: Any) -> Any:
    encoder = encoder or DefaultTaskEncoder()
    return get_loader(get_train_dataset(path, batch_size=8, task_encoder=encoder, **{"lanes": 4, **options}))


@pytest.mark.parametrize("encoder", [Raw(), DefaultTaskEncoder()], ids=["bulk", "decoded"])
def test_batches_are_independent_of_storage_location(tmp_path: Path, encoder: Any) -> None:
    local, url = local_and_remote(tmp_path)
    expected, actual = (a_training(path, encoder, max_samples_per_sequence=8) for path in (local, url))

    assert digests(actual, 70) == digests(expected, 70)
    assert actual.config()["order"] == expected.config()["order"]


def test_remote_validation_on_split_by_sample_equals_local_one(tmp_path: Path) -> None:
    local, url = local_and_remote(tmp_path, split_by="sample")
    passes = [
        [digest(batch) for batch in get_loader(get_val_dataset(path, batch_size=7, task_encoder=Raw()))]
        for path in (local, url)
    ]

    assert len(passes[0]) == 9
    assert passes[0] == passes[1]


def test_state_resumes_across_local_disk_and_remote_store(tmp_path: Path) -> None:
    local, url = local_and_remote(tmp_path)
    whole = digests(a_training(local), 40)
    first = a_training(local)
    actual = digests(first, 11)

    second = a_training(url)
    second.load_state_dict(first.state_dict())
    actual += digests(second, 9)
    third = a_training(local)
    third.load_state_dict(second.state_dict())

    assert actual + digests(third, 20) == whole


def test_window_is_read_in_few_requests(tmp_path: Path) -> None:
    _, url = local_and_remote(tmp_path, samples=600)
    loader = a_training(url, lanes=1, shuffle_buffer_size=240, max_samples_per_sequence=60)
    FaultyFileSystem.reads.clear()

    assert len(digests(loader, 240 // 8)) == 30
    assert len(FaultyFileSystem.reads) <= 9, "four slices of sixty, each in at most two shards, and the next window"


def test_selected_parts_are_fetched_together(tmp_path: Path) -> None:
    def parts(i: int) -> dict[str, bytes]:
        return {"a.txt": f"a {i}".encode(), "bin": bytes(100 << 10), "b.txt": f"b {i}".encode()}

    fields = {"context": "a.txt", "answers": "b.txt", "image": "a.txt"}
    _, url = local_and_remote(tmp_path, samples=120, parts=parts, sample_type="VQASample", field_map=fields)
    loader = a_training(url, Raw(), lanes=1, shuffle_buffer_size=48, max_samples_per_sequence=6)
    FaultyFileSystem.reads.clear()

    assert len(digests(loader, 6)) == 6
    assert len(FaultyFileSystem.reads) < 12, "and not two a sample"


def test_url_gets_remote_default_of_max_samples_per_sequence(tmp_path: Path) -> None:
    local, url = local_and_remote(tmp_path, samples=3000)

    assert a_training(local, lanes=1).config()["order"]["max_samples_per_sequence"] == 16
    assert a_training(url, lanes=1).config()["order"]["max_samples_per_sequence"] == 128


@pytest.mark.parametrize("damage", ["truncated", "longer"])
def test_loader_refuses_shard_whose_size_changed_since_indexing(tmp_path: Path, damage: str) -> None:
    _, url = local_and_remote(tmp_path)
    filesystem, base = fsspec.url_to_fs(url)
    data = filesystem.cat_file(f"{base}/shard-000.tar")
    filesystem.pipe_file(f"{base}/shard-000.tar", data[:-512] if damage == "truncated" else data + bytes(512))

    with pytest.raises(WdsctlError) as caught:
        digests(a_training(url, Raw(), worker_config=raising_worker_config()), 60)
    assert caught.value.code == "WDS403"
    assert "shard shard-000.tar" in caught.value.where
    assert URL in caught.value.where


def test_loader_continues_exactly_after_store_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_retry_pauses(monkeypatch)
    local, url = local_and_remote(tmp_path, samples=500)
    options = {"max_samples_per_sequence": 4, "shuffle_buffer_size": 8}
    whole = digests(a_training(local, Raw(), **options), 60)
    loader = a_training(url, Raw(), worker_config=raising_worker_config(), **options)
    batches = digests(loader, 5)
    stream = iter(loader)

    def fail_read(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise ConnectionResetError("reset by peer")

    FaultyFileSystem.fault.append(fail_read)
    with pytest.raises((StorageError, SampleFailed), match="does not respond"):  # after the prefetched batches
        batches.extend(map(digest, stream))
    FaultyFileSystem.fault.clear()

    assert batches + digests(loader, 60 - len(batches)) == whole


def test_raw_views_of_url_are_refused() -> None:
    with pytest.raises(UsageError, match="URLs do not support"):
        get_train_dataset(URL, task_encoder=Raw(), raw="view")


def test_sources_of_sample_contain_no_password(tmp_path: Path) -> None:
    local = a_dataset(tmp_path / "local", 20)
    url = upload_shards(local, "memory://ann:secret@store/shards")
    prepare(url, None, PrepareRequest(sample_type="CrudeSample"))

    batch = next(iter(a_training(url)))

    assert {source.dataset_path for source in batch.__sources__} == {"memory://store/shards"}


def test_s3_batches_equal_local_ones_and_changed_object_is_reported(tmp_path: Path) -> None:
    with s3_server():
        local, url = local_and_remote(tmp_path, "s3://bucket/train")
        options = {"max_samples_per_sequence": 8}

        assert digests(a_training(url, **options), 30) == digests(a_training(local, **options), 30)

        fsspec.filesystem("s3").pipe_file("bucket/train/shard-000.tar", b"something else")
        with pytest.raises(WdsctlError) as caught:
            digests(a_training(url, Raw(), worker_config=raising_worker_config()), 60)
        assert caught.value.code == "WDS403"


def test_view_in_store_gives_batches_of_local_view(tmp_path: Path) -> None:
    local, url = local_and_remote(tmp_path)
    for root in (local, url):
        create_view(root, "odd", ViewDefinition(where="position % 2 = 1"))
    assert digests(a_training(f"{url}@odd"), 8) == digests(a_training(f"{local}@odd"), 8)
