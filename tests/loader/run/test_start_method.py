"""Workers are not forked if they would wait for threads of a storage client."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fsspec.registry import _registry as driver_registry

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests
from tests.prepare_requests import prepare_request
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.run import engine


class Client(FaultyFileSystem):
    """A stand-in for the client of `msc://`."""

    protocol = "msc"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("msc://").strip("/")


@pytest.mark.usefixtures("faulty_store")
@pytest.mark.parametrize("is_used", [False, True])
def test_process_that_used_msc_starts_workers_by_forkserver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, is_used: bool
) -> None:
    monkeypatch.setitem(driver_registry, "msc", Client)
    url = upload_shards(a_dataset(tmp_path / "local", 40), "msc://profile/shards")
    prepare(url, None, prepare_request(sample_type="CrudeSample"))
    monkeypatch.delitem(sys.modules, "multistorageclient", raising=False)
    if is_used:
        monkeypatch.setitem(sys.modules, "multistorageclient", ModuleType("multistorageclient"))
    start_methods: list[str] = []

    class NotStarted(Exception):  # noqa: N818
        pass

    def pool(*_: Any, options: Any, **__: Any) -> None:
        start_methods.append(options.start_method)
        raise NotStarted

    monkeypatch.setattr(engine, "WorkerPool", pool)
    loader = get_loader(
        get_train_dataset(url, batch_size=4, task_encoder=Raw(), worker_config=WorkerConfig(num_workers=1))
    )

    with caplog.at_level(logging.WARNING), pytest.raises(NotStarted):
        digests(loader, 1)
    assert start_methods == ["forkserver" if is_used else "fork"]
    assert ("which do not survive a fork" in caplog.text) == is_used
