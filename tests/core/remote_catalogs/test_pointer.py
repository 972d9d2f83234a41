"""The pointer of a published catalog round-trips, and invalid pointers are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.catalog.ledger_file import LEDGER_SCHEMA_VERSION
from wdsctl.core.catalog.open_catalog import CATALOG_SCHEMA_VERSION
from wdsctl.core.errors import CatalogError
from wdsctl.core.remote_catalogs.pointer import (
    KNOWN_SCHEMAS,
    PublishedFile,
    is_published_name,
    new_pointer,
    parse_pointer,
)

WHERE = "s3://bucket/shards/.wdsctl/current.json"
FILES = (
    PublishedFile("catalog.sqlite", 4096, "a" * 64),
    PublishedFile("columns/tokens-3.bin", 100, "b" * 64),
)


def document(**changes: Any) -> bytes:
    found = json.loads(new_pointer(7, 3, FILES, {"catalog.sqlite": 1}).encode())
    return json.dumps({**found, **changes}).encode()


def test_pointer_round_trips() -> None:
    pointer = new_pointer(7, 3, FILES, {"catalog.sqlite": 1})

    assert parse_pointer(pointer.encode(), WHERE) == pointer
    assert pointer.files[1].object_name == f"files/{'b' * 64}-tokens-3.bin"


def test_known_schemas_are_those_of_catalog_and_ledger() -> None:
    assert {"catalog.sqlite": CATALOG_SCHEMA_VERSION, "ledger.sqlite": LEDGER_SCHEMA_VERSION} == KNOWN_SCHEMAS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format": "one"}',
        b"[" * 100_000,
        document(files=None),
        document(files=[{"name": "catalog.sqlite", "object": "files/other", "size": 1, "sha256": "a" * 64}]),
        document(files=json.loads(document())["files"] * 2),
        document(
            files=[
                {"name": name, "object": f"files/{'a' * 64}-{name[-1]}", "size": 1, "sha256": "a" * 64}
                for name in ("a", "a/b/c")
            ]
        ),
        document(revision=-1),
        document(revision=True),
        document(generation=1.5),
        document(published={}),
        document(schemas={"catalog.sqlite": "one"}),
    ],
)
def test_damaged_pointer_is_refused(data: bytes) -> None:
    with pytest.raises(CatalogError) as caught:
        parse_pointer(data, WHERE)
    assert (caught.value.code, caught.value.where) == ("WDS302", WHERE)


@pytest.mark.parametrize(
    "name",
    ["../catalog.sqlite", "/etc/passwd", "a//b", "", ".", "a/../b", ".published/record.json", "lock", "work/x", "a\0b",
     "a\nb", "x" * 300, "columns/units/x", "joins/x", "catalog.sqlite-journal", "ledger.sqlite.damaged-1", "a\\b"],
)  # fmt: skip
def test_pointer_with_unsafe_or_unpublishable_name_is_refused(name: str) -> None:
    file = PublishedFile(name, 1, "a" * 64)
    entry = {"name": name, "object": file.object_name, "size": 1, "sha256": "a" * 64}

    with pytest.raises(CatalogError, match="invalid values"):
        parse_pointer(document(files=[entry]), WHERE)


@pytest.mark.parametrize(
    "changes", [{"format": 2}, {"schemas": {"catalog.sqlite": 2}}, {"schemas": {"ledger.sqlite": 9}}]
)
def test_pointer_of_newer_wdsctl_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CatalogError, match="written by a newer wdsctl") as caught:
        parse_pointer(document(**changes), WHERE)
    assert caught.value.code == "WDS303"


def test_describe_publisher_removes_control_characters_and_secrets() -> None:
    pointer = parse_pointer(
        document(published={"host": "a\x1b[31mb", "pid": 1, "time": "now", "command": "index s3://me:pass@bucket/x"}),
        WHERE,
    )

    assert "\x1b" not in pointer.describe_publisher()
    assert "pass" not in pointer.describe_publisher()


@pytest.mark.parametrize(
    ("name", "is_published"),
    [
        ("catalog.sqlite", True),
        ("ledger.sqlite", True),
        ("dataset.yaml", True),
        ("offsets-12.bin", True),
        ("names-12.bin", True),
        ("keyframes-12.bin", True),
        ("columns/tokens-3.bin", True),
        ("keys/train-0f0f.txt", True),
        ("my_types.yaml", True),
        ("lock", False),
        ("lock.0123", False),
        ("work/unit", False),
        ("media/unit", False),
        ("convert/finished", False),
        ("repair/shard", False),
        ("uploads/one", False),
        ("columns/units/x/1", False),
        ("joins/abc.bin", False),
        (".catalog.sqlite.12.partial", False),
        ("columns/.tokens-3.bin.12.partial", False),
        (".published/record.json", False),
        ("ledger.sqlite-journal", False),
        ("ledger.sqlite.damaged-1", False),
        ("unpublished-20260101-000000-7/dataset.yaml", False),
    ],
)
def test_is_published_name_selects_published_files(name: str, is_published: bool) -> None:
    assert is_published_name(name) == is_published
