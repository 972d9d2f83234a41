"""A signed URL is a dataset of one file; its signature is used and stored nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from tests.build import a_shard, samples
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, PermissionDenied, UsageError
from wdsctl.core.inspect.get import find_target, read_part
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.urls import hide_query, is_signature, is_signed, redact_secrets, reveal_query, url_identity
from wdsctl.core.validate.validate import validate
from wdsctl.loader import get_loader, get_train_dataset

UNSURE = PrepareRequest(accept_type=True)
SIGNED = "https://host/a/x.tar?X-Amz-Signature=abc%2Fd&X-Amz-Expires=9"


def sign(url: str, seconds: int = 600) -> str:
    # The default, signature version 2, is no longer supported by S3.
    filesystem, path = fsspec.url_to_fs(url, config_kwargs={"signature_version": "s3v4"})
    signed: str = filesystem.sign(path, expiration=seconds)
    return signed


def a_signed_shard(root: str, name: str, data: bytes) -> str:
    ObjectStore(root).put(f"{root}/{name}", data)
    return sign(f"{root}/{name}")


def files_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_hide_query_stores_query_where_secrets_are_redacted() -> None:
    hidden = hide_query(SIGNED)
    assert reveal_query(f"{hidden}/more") == ("https://host/a/x.tar/more", SIGNED.partition("?")[2])
    assert redact_secrets(f"cannot read {hidden}/x") == "cannot read https://host/a/x.tar/x"
    assert url_identity(hidden) == "https://host/a/x.tar"
    assert is_signed(hidden)
    assert is_signed(SIGNED)
    assert not is_signed("https://ann:pw@host/x.tar")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("X-Amz-Algorithm=A&X-Amz-Credential=c&X-Amz-Signature=s", True),
        ("AWSAccessKeyId=k&Signature=s&Expires=9", True),
        ("X-Goog-Algorithm=g&X-Goog-Signature=s", True),
        ("sv=2024-01-01&sr=b&sig=s&se=x&sp=r&spr=https", True),
        ("Policy=p&Signature=s&Key-Pair-Id=k&response-content-disposition=d", True),
        ("id=5", False),
        ("X-Amz-Signature=s&versionId=4", False),
        ("X-Amz-Expires=9", False),
    ],
)
def test_is_signature_distinguishes_other_queries(query: str, expected: bool) -> None:
    assert is_signature(query) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://host/shards?sig=abc", "must name one file"),
        ("s3://bucket/x.tar?sig=abc", "only http:// and https:// URLs"),
        ("simplecache::https://host/x.tar?sig=abc", "without cache"),
        ("https://ann:pw@host/x.tar?sig=abc", "without cache and user"),
        ("https://host/x.tar?id=5", "not only a signature"),
    ],
)
def test_unsupported_queries_are_refused_and_not_printed(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        locate(url)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.tar", "x y@1.tar"])
def test_signed_shard_is_prepared_validated_and_loaded(use_store: Callable[[str], str], name: str) -> None:
    url = a_signed_shard(use_store("rclone"), name, a_shard(samples(0, 20, "txt")))
    prepare(url, None, UNSURE)

    assert inspect(url).samples == 20
    assert validate(url).findings == ()
    loader = get_loader(get_train_dataset(url, batch_size=4))
    assert len([key for _, batch in zip(range(5), loader, strict=False) for key in batch.__key__]) == 20


def test_signed_jsonl_is_a_dataset(use_store: Callable[[str], str]) -> None:
    lines = "".join(f"{json.dumps({'text': f'line {i}'})}\n" for i in range(9))
    url = a_signed_shard(use_store("rclone"), "qa.jsonl", lines.encode())
    prepare(url, None, UNSURE)
    assert inspect(url).samples == 9


def test_renewed_signature_finds_catalog_and_is_stored_nowhere(
    use_store: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = use_store("rclone")
    first = a_signed_shard(root, "x.tar", a_shard(samples(0, 20, "txt")))
    prepare(first, None, UNSURE)
    second = sign(f"{root}/x.tar", 900)
    loader = get_loader(get_train_dataset(second, batch_size=4, trace=str(tmp_path / "trace")))
    next(iter(loader))
    state = json.dumps(loader.state_dict())
    loader.close()

    assert locate(first).catalog_path == locate(second).catalog_path == locate(first.partition("?")[0]).catalog_path
    stored = files_below(tmp_path) + state.encode() + caplog.text.encode() + repr(inspect(second)).encode()
    for url in (first, second):
        assert url.rpartition("=")[2].encode() not in stored
    assert b"X-Amz-" not in stored
    assert b"Signature" not in stored


def test_expired_signature_is_reported_with_hint(use_store: Callable[[str], str]) -> None:
    url = a_signed_shard(use_store("rclone"), "x.tar", a_shard(samples(0, 3, "txt")))
    with pytest.raises(PermissionDenied) as caught:
        prepare(f"{url[:-4]}0000", None, UNSURE)
    assert "sign the URL again" in caught.value.hint
    assert "X-Amz" not in str(caught.value)


def test_signed_url_cannot_be_written() -> None:
    with pytest.raises((InputError, UsageError), match="sign"):
        ObjectStore(SIGNED).put(SIGNED, b"1")


def test_signed_url_is_read_by_ranges(use_store: Callable[[str], str]) -> None:
    data = bytes(range(256)) * 1000
    location = locate(a_signed_shard(use_store("rclone"), "x.tar", data))
    storage = FsspecStorage(location.root, {location.path: len(data)})
    assert storage.read(location.path, 1000, 5000) == data[1000:6000]
    assert location.display_path.endswith("/x.tar")
    assert "Amz" not in repr(location)


def test_get_reads_one_part_of_signed_shard(use_store: Callable[[str], str]) -> None:
    url = a_signed_shard(use_store("rclone"), "x.tar", a_shard({"k.txt": b"hello"}))
    prepare(url, None, UNSURE)
    assert b"".join(read_part(find_target(url, "k", part="txt"))) == b"hello"
