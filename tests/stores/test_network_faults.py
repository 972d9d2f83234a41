"""Under faults of network and store, commands and loaders give the same results, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from tests.build import a_shard
from tests.core.dumps import TABLES, query
from tests.loader.datasets import a_dataset, digest
from tests.loader.running import digests, make_training_loader, raising_worker_config, take_batches
from tests.remote import remove_retry_pauses, upload_shards
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, in_use
from wdsctl.cli.main import main
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.storage.hedging import HedgePolicy
from wdsctl.core.storage.remote_errors import RetryPolicy

SAMPLES = 24
PAUSE_BEFORE = RetryPolicy.pause_before  # with the real pauses, unlike in the other tests
BATCHES = 8  # more than an epoch of batches of four


@pytest.fixture
def proxy(
    running_store: Callable[[str], Store], use_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultProxy]:
    remove_retry_pauses(monkeypatch)
    use_store("moto")
    store = running_store("moto")
    with FaultProxy(store.endpoint) as fault_proxy, in_use(store.through(fault_proxy.url)):
        yield fault_proxy


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "local", SAMPLES, shard_samples=8)


@pytest.fixture
def url(proxy: FaultProxy, local: str, tmp_path: Path) -> str:
    """The shards of `local` in a store behind the proxy, without a catalog."""
    return upload_shards(local, f"s3://bucket/{tmp_path.name}")


def run_prepare(url: str) -> int:
    return main(["prepare", url, "--sample-type", "CrudeSample", "--yes", "--json", "--workers", "1"])


def rows(root: str) -> list[object]:
    """Return the catalog's rows without the times of its shards."""
    path = locate(root).catalog_path
    shard = "id, path, size, samples, parts, status, code, layout_hash"
    return [query(path, f"SELECT {shard if table == 'shard' else '*'} FROM {table} ORDER BY 1, 2") for table in TABLES]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(delay_seconds=0.01)], id="delays"),
        *(pytest.param([Fault(status=code, times=2)], id=str(code)) for code in (500, 503, 429)),
        pytest.param([Fault(cut="request", times=3)], id="cut before the store"),
        pytest.param([Fault(cut="response", times=3)], id="cut after the store"),
        pytest.param([Fault(method="GET", cut="body", times=3)], id="cut in the body"),
        pytest.param([Fault(method="GET", path=r"\.tar", length_off=7, times=3)], id="length too large"),
        pytest.param([Fault(method="GET", path=r"\.tar", length_off=-7, times=3)], id="length too small"),
        pytest.param([Fault(method="GET", path=r"\.tar", trim_bytes=9, times=3)], id="shorter bodies"),
        pytest.param([Fault(date_off_seconds=7200)], id="a clock that is off"),
    ],
)
def test_transient_faults_change_neither_catalog_nor_batches(
    proxy: FaultProxy, url: str, local: str, faults: list[Fault]
) -> None:
    expected = digests(make_training_loader(local), BATCHES)
    proxy.reset_counts()
    proxy.set_faults(*faults)

    assert run_prepare(url) == 0
    assert rows(url) == rows(local)
    assert digests(make_training_loader(url, worker_config=raising_worker_config()), BATCHES) == expected
    assert proxy.counts.struck > 0 or faults[0].delay_seconds


@pytest.mark.parametrize("seconds", [1.5, pytest.param(30.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("hang", [False, True], ids=["refused", "no answer"])
def test_commands_and_loader_wait_for_network(
    proxy: FaultProxy, url: str, local: str, seconds: float, hang: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seconds > 10:  # the driver alone gives up after a random time of some 8 s
        monkeypatch.setattr(RetryPolicy, "pause_before", PAUSE_BEFORE)
    expected = digests(make_training_loader(local), BATCHES)
    proxy.set_faults(Fault(method="GET", path=r"\.tar", times=1, before=lambda: proxy.go_offline(seconds, hang=hang)))
    assert run_prepare(url) == 0
    assert rows(url) == rows(local)

    proxy.set_faults(Fault(method="GET", path=r"\.tar", times=1, before=lambda: proxy.go_offline(seconds, hang=hang)))
    assert digests(make_training_loader(url, worker_config=raising_worker_config()), BATCHES) == expected


@pytest.fixture
def unhedged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is sent a second time: the copy would be answered while the first one replaces the object."""
    monkeypatch.setattr(HedgePolicy, "spend", lambda _: False)


def overwrite(url: str, name: str) -> None:
    """Replace an object by other bytes of the same size."""
    filesystem, path = fsspec.url_to_fs(f"{url}/{name}")
    data = filesystem.cat_file(path)
    filesystem.pipe_file(path, data[:1024] + bytes(reversed(data[1024:])))


@pytest.mark.usefixtures("unhedged")
def test_shard_replaced_during_index_is_reported_as_unreadable(
    proxy: FaultProxy, use_store: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (a_shard({f"{letter}{i}.bin": letter.encode() * (5 << 20) for i in range(4)}) for letter in ("a", "b"))
    root = f"s3://bucket/{tmp_path.name}"
    filesystem, path = fsspec.url_to_fs(root)
    filesystem.pipe_file(f"{path}/0.tar", one)
    filesystem.pipe_file(f"{path}/1.tar", one)
    filesystem.pipe_file(f"{path}-two", two)
    proxy.set_faults(
        Fault(
            method="GET",
            path=r"/0\.tar",
            skip=1,
            times=1,
            before=lambda: filesystem.cp_file(f"{path}-two", f"{path}/0.tar"),
        )
    )

    code = main(["index", root, "--json", "--workers", "1"])

    assert proxy.counts.by_method["GET"] > 3, "the shard is read in several ranges"
    found = query(locate(root).catalog_path, "SELECT path, status FROM shard ORDER BY path")
    assert code == 5, capsys.readouterr()
    assert found[1] == ("1.tar", "ok")
    assert found[0] == ("0.tar", "unreadable")
    proxy.set_faults()
    assert main(["index", root, "--json", "--workers", "1"]) == 0
    keys = [key for (key,) in query(locate(root).catalog_path, "SELECT key FROM sample ORDER BY key")]
    assert keys == [*(f"a{i}" for i in range(4)), *(f"b{i}" for i in range(4))]


@pytest.mark.usefixtures("unhedged")
def test_shard_replaced_during_training_raises_error_before_use(proxy: FaultProxy, url: str, local: str) -> None:
    assert run_prepare(url) == 0
    expected = {digest(sample) for sample in take_batches(make_training_loader(local, batch_size=None), 3 * SAMPLES)}
    shard = sorted(path.name for path in Path(local).glob("*.tar"))[1]
    proxy.set_faults(Fault(method="GET", path=shard, skip=1, times=1, before=lambda: overwrite(url, shard)))
    loader = make_training_loader(url, batch_size=None, worker_config=raising_worker_config())

    seen: set[str] = set()
    with pytest.raises(WdsctlError, match="was replaced during the read"):
        seen.update(map(digest, loader))

    assert seen <= expected
