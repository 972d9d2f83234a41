"""Builders of small prepared datasets for the tests of the loader."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.places import place_dataset
from tests.prepare_requests import prepare_request
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import DefaultTaskEncoder

Parts = Mapping[str, bytes]

#: What `a_dataset` has built, by a hash of it. None: every dataset is built.
templates: Path | None = None


class Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Returns the bytes of all parts undecoded."""

    decoder = None


def numbered(i: int) -> Parts:
    """The parts of sample `i`, which contain its number."""
    return {"txt": f"text {i}".encode(), "json": json.dumps({"number": i}).encode()}


def a_shard(path: Path, samples: Iterable[tuple[str, Parts]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, parts in samples:
            for name, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def a_dataset(
    root: Path,
    samples: int = 100,
    *,
    shard_samples: int = 30,
    parts: Callable[[int], Parts] = numbered,
    **options: Any,
) -> str:
    """A prepared dataset: keys `000000`, `000001`, ...; everything is `train` unless `split` says otherwise.

    A local dataset that was built before is copied, since preparing takes 50 times as long.
    """
    rows = [(f"{i:06}", parts(i)) for i in range(samples)]
    shards = {
        f"shard-{at:03}.tar": rows[i : i + shard_samples] for at, i in enumerate(range(0, samples, shard_samples))
    }
    options = {"sample_type": "CrudeSample", **options}
    if templates is None or place_dataset(root) != str(root) or (root.exists() and os.listdir(root)):
        return _prepared(root, shards, options)
    template = templates / hashlib.sha256(repr((shards, sorted(options.items()))).encode()).hexdigest()
    if template.exists():
        shutil.copytree(template, root, dirs_exist_ok=True)
    else:
        _prepared(root, shards, options)
        shutil.copytree(root, template)
    return str(root)


def _prepared(root: Path, shards: Mapping[str, list[tuple[str, Parts]]], options: Mapping[str, Any]) -> str:
    for name, rows in shards.items():
        a_shard(root / name, rows)
    dataset = place_dataset(root)
    prepare(dataset, None, prepare_request(**options))
    return dataset


def at_place(local: str, **options: Any) -> str:
    """A dataset that several tests share, at the storage location of this test."""
    dataset = place_dataset(local)
    if dataset != local:
        prepare(dataset, None, prepare_request(**{"sample_type": "CrudeSample", **options}))
    return dataset


def digest(batch: Any) -> str:
    """A hash of a batch, byte for byte: keys, passes and values of all fields."""
    fields = {name: batch[name] for name in batch.keys() if name != "__sources__"}  # noqa: SIM118 - a Batch is no dict
    return hashlib.sha256(repr(sorted((name, _plain(value)) for name, value in fields.items())).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if hasattr(value, "numpy"):
        return (str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes())
    return value
