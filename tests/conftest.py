"""Settings and fixtures of all tests."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from wdsctl.cli.agents import AGENT_VARIABLES

if TYPE_CHECKING:
    from tests.stores.servers import Store

pytest_plugins = ["tests.parallel", "tests.quick", "tests.rewritten", "tests.seeds"]

# A shell starts background jobs with SIGINT ignored, and every child process inherits that: tests of Ctrl-C would
# wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No user's configuration affects a test or the processes that it starts.
for _name in [name for name in os.environ if name.startswith("WDSCTL_")]:
    del os.environ[_name]
# Nor does a coding agent that runs the tests.
for _name in AGENT_VARIABLES:
    os.environ.pop(_name, None)
# The programs that tests start buffer their output, as those of users do.
os.environ.pop("PYTHONUNBUFFERED", None)
# gcsfs asks for the type of a bucket over gRPC, which no emulator supports; it reads this variable at import.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
os.environ["XDG_CONFIG_HOME"] = os.path.join(tempfile.gettempdir(), "wdsctl-tests-have-no-configuration")

#: A file system in memory, and the bytes that it must have free to hold what the tests write.
_MEMORY, _MEMORY_BYTES = "/dev/shm", 8 << 30  # noqa: S108 - pytest creates a folder of this user in it


def pytest_configure(config: pytest.Config) -> None:
    """Put the temporary folders into memory: half of the time of small tests is waiting for the disk's fsync."""
    if config.getoption("quick"):
        settings.load_profile("quick")
    if config.option.markexpr != "slow" and os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


def pytest_sessionstart() -> None:
    """Report the path of a file that was left open: the collector finds it in another test than the one that opened
    it, and the warning has a descriptor's number only."""
    report = sys.unraisablehook

    def report_with_path(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        if isinstance(error, ResourceWarning) and isinstance(unraisable.object, io.IOBase):
            with suppress(OSError, ValueError):  # it has no descriptor
                path = os.readlink(f"/proc/self/fd/{unraisable.object.fileno()}")
                error.args = (f"{error} of {path}",)
        report(unraisable)

    sys.unraisablehook = report_with_path


#: Without one of these, the test files that import it are skipped.
_OPTIONAL = r"No module named '(pyarrow|webdataset|jupyter_client|ipykernel|moto|flask|ray)\b"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    missing = report.failed and re.search(_OPTIONAL, str(report.longrepr))
    if missing:
        report.outcome = "skipped"
        report.longrepr = (report.nodeid, 1, f"Skipped: {missing[1]} is not installed")
    return report


# The time of an example depends on the machine and its load only, so it has no deadline.
# Examples beyond these repeat kinds: another seed (`make test SEED=2`) draws others.
for _name, _examples in (("quick", 20), ("full", 50)):
    settings.register_profile(
        _name, settings(), deadline=None, max_examples=_examples, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("full")


@pytest.fixture(scope="session", autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps catalogs of URLs in a temporary folder, apart from the user's data folder and from earlier runs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield


@pytest.fixture
def faulty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty store under `faulty://` without faults yet, and a separate folder for catalogs."""
    from tests.remote import FaultyFileSystem

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    FaultyFileSystem.reset()
    yield
    FaultyFileSystem.reset()


@pytest.fixture
def delayed_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty store under `delayed://` without a delay yet, and a separate folder for catalogs."""
    from tests.remote import DelayedFileSystem

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    DelayedFileSystem.reset()
    yield
    DelayedFileSystem.reset()


@pytest.fixture(scope="session")
def running_store() -> Iterator[Callable[[str], Store]]:
    """Returns a store by its name (`rclone`, `moto`, `azurite`, `google`), started at first use."""
    from tests.stores import servers

    running: dict[str, Store] = {}
    with ExitStack() as stack:

        def start(name: str) -> Store:
            if name not in running:
                running[name] = stack.enter_context(getattr(servers, f"{name}_server")())
            return running[name]

        yield start


@pytest.fixture
def use_store(
    running_store: Callable[[str], Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], str]]:
    """Returns the URL of an empty folder in the named store, which drivers can use until the test ends."""
    from tests.stores.servers import in_use

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    with ExitStack() as stack:

        def use(name: str) -> str:
            store = stack.enter_context(in_use(running_store(name)))
            return f"{store.root}/{uuid.uuid4().hex}"

        yield use


@pytest.fixture(params=["rclone", "moto", "azurite", "google"])
def store_folder(request: pytest.FixtureRequest, use_store: Callable[[str], str]) -> str:
    """The URL of an empty folder, in each store in turn."""
    return use_store(request.param)


@pytest.fixture(params=["memory", "s3"])
def dest(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty folder to write to, in memory and in S3."""
    if request.param == "s3":
        return f"{request.getfixturevalue('use_store')('moto')}/dest"
    from tests.remote import FaultyFileSystem

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    FaultyFileSystem.reset()
    return f"memory://{tmp_path.name}/dest"


@pytest.fixture(params=["local", "s3"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Where builders put the test's datasets (`tests/places.py`): local folders or an S3 store."""
    from tests.places import STORES, StorePlace, datasets_in

    if request.param == "local":
        yield request.param
        return
    if server := STORES[request.param]:
        root = request.getfixturevalue("use_store")(server)
    else:
        from tests.remote import FaultyFileSystem

        FaultyFileSystem.reset()
        root = f"memory://{tmp_path.name}"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
    with datasets_in(StorePlace(tmp_path, root)):
        yield request.param
