"""Stores for tests: images and texts in tars and folders, and datasets that refer to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.build import a_dataset as tars
from tests.build import a_folder, an_image
from tests.loader.datasets import a_dataset
from wdsctl.core.index.index import index
from wdsctl.loader import SampleDecoder
from wdsctl.loader.stores import FileStore, PreparedStore, open_store


def some_files(count: int = 6) -> dict[str, bytes]:
    return {name: data for i in range(count) for name, data in ((f"m/{i}.txt", f"text {i}".encode()),)}


def a_tar_store(root: Path, files: dict[str, bytes] | None = None, *others: dict[str, bytes]) -> str:
    """Makes a prepared dataset of these files, with one shard per mapping."""
    shards = [some_files() if files is None else files, *others]
    store = tars(root, {f"shard-{i}.tar": content for i, content in enumerate(shards)})
    index(store)
    return store


def open_prepared_store(reference: str, **options: Any) -> PreparedStore:
    store = open_reference(reference, **options)
    assert isinstance(store, PreparedStore)
    return store


DECODER = SampleDecoder()


def open_reference(reference: str, decoder: SampleDecoder | None = DECODER, **options: Any) -> FileStore:
    return open_store(reference, decoder, **options)


def a_file_folder(root: Path) -> str:
    return a_folder(root, {"a/0.txt": b"zero", "a/1.txt": b"one", "Photo.png": an_image("PNG"), ".hidden.txt": b"h"})


def make_primary_dataset(root: Path, count: int = 24, reference: str = "m/{}.txt", entries: int = 6) -> str:
    """Makes a prepared dataset whose sample i refers to the entry i mod `entries` of a store."""

    def parts(i: int) -> dict[str, bytes]:
        return {"json": json.dumps({"media": reference.format(i % entries), "number": i}).encode(), "txt": b"%d" % i}

    return a_dataset(root, count, shard_samples=10, parts=parts)


def blend_with_stores(primary: str, **aux: str) -> dict[str, Any]:
    return {"path": primary, "aux": aux}
