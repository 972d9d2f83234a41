from __future__ import annotations

import errno
import gc
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable

import fsspec
import pytest
from fsspec.registry import _registry as opened_drivers

from tests.remote import FaultyFileSystem, OnceEach, s3_server
from wdsctl.core.errors import InputError, PermissionDenied, StorageDown, StorageError, WdsctlError
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.remote_errors import FIRST_TRIES, MAX_TRIES, RetryPolicy, translate_remote
from wdsctl.core.storage.storage import FileRange

DATA = bytes(range(200))
A, B = "faulty://store/data/a.tar", "faulty://store/data/sub/b.tar"


@pytest.fixture(autouse=True)
def _store(faulty_store: None) -> None:
    filesystem = FaultyFileSystem()
    filesystem.pipe_file("/store/data/a.tar", DATA)
    filesystem.pipe_file("/store/data/sub/b.tar", DATA[::-1])


def a_storage(expected: dict[str, int] | None = None) -> FsspecStorage:
    return FsspecStorage("faulty://store/data/", expected, retry_policy=RetryPolicy(first_pause_seconds=0.0))


def truncate(path: str, start: int, stop: int, data: bytes) -> bytes:
    return data[:-1]


def fail_with(error: Exception, times: int = FIRST_TRIES) -> OnceEach:
    def fail(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise error

    return OnceEach(fail, times=times)


def test_read_returns_exactly_requested_bytes() -> None:
    storage = a_storage()

    assert storage.read(A, 2, 3) == DATA[2:5]
    assert storage.read(A, 200, 0) == b""
    assert storage.read_many([FileRange(B, 0, 2), FileRange(A, 8, 2), FileRange(B, 1, 3)]) == [
        bytes([199, 198]),
        DATA[8:10],
        bytes([198, 197, 196]),
    ]
    assert storage.size(A) == 200
    assert (storage.exists(A), storage.exists(A + "x")) == (True, False)


def test_files_have_paths_relative_to_root() -> None:
    assert sorted(path for path, _ in a_storage().files()) == ["a.tar", "sub/b.tar"]


def test_read_into_fills_memory() -> None:
    memory = bytearray(5)
    a_storage().read_into(A, 2, memoryview(memory)[1:])

    assert bytes(memory) == b"\0" + DATA[2:6]


def test_neighbouring_ranges_are_read_in_one_request() -> None:
    a_storage().read_many([FileRange(A, 10 * i, 5) for i in range(10)])

    assert FaultyFileSystem.reads == [("/store/data/a.tar", 0, 95)]


def test_announced_window_is_fetched_on_first_read_and_returned_once() -> None:
    storage = a_storage()
    window = [FileRange(A, 50, 5), FileRange(B, 0, 7), FileRange(A, 10, 5)]
    storage.will_need(window)
    assert FaultyFileSystem.reads == []

    assert [storage.read(*each) for each in window] == [DATA[50:55], DATA[::-1][:7], DATA[10:15]]
    assert len(FaultyFileSystem.reads) == 2, "one request a file"

    storage.read(*window[0])
    assert len(FaultyFileSystem.reads) == 3, "nothing is kept of what has been handed out"


def test_failing_range_of_window_does_not_fail_others() -> None:
    storage = a_storage()
    storage.will_need([FileRange(A, 0, 5), FileRange(A + "-gone", 0, 5)])

    assert storage.read(A, 0, 5) == DATA[:5]
    with pytest.raises(StorageError, match="the object does not exist") as caught:
        storage.read(A + "-gone", 0, 5)
    assert caught.value.where == A + "-gone"


def test_truncated_read_is_retried() -> None:
    FaultyFileSystem.fault.append(OnceEach(truncate))

    assert a_storage().read(A, 0, 50) == DATA[:50]


def test_read_that_stays_short_is_refused() -> None:
    FaultyFileSystem.fault.append(truncate)

    with pytest.raises(StorageError, match=r"short read from the store after all retries \(49 of 50 bytes\)") as caught:
        a_storage().read(A, 0, 50)
    assert caught.value.code == "WDS403"


def test_range_beyond_end_reports_position_and_missing_bytes() -> None:
    with pytest.raises(StorageError, match="10 bytes too short") as caught:
        a_storage().read(A, 150, 60)
    assert (caught.value.code, caught.value.where) == ("WDS403", f"{A} (byte 150)")


def test_store_that_ignores_range_requests_is_refused() -> None:
    FaultyFileSystem.fault.append(lambda *_: DATA)

    with pytest.raises(StorageDown, match="ignores range requests"):
        a_storage().read(A, 0, 50)


@pytest.mark.parametrize(
    "error", [ConnectionResetError("reset"), TimeoutError("slow"), OSError(errno.EBUSY, "SlowDown")], ids=repr
)
def test_transient_errors_are_retried_then_raised(error: Exception) -> None:
    fault = fail_with(error)
    FaultyFileSystem.fault.append(fault)

    with pytest.raises(StorageError, match="the store does not respond") as caught:
        a_storage().read(A, 0, 50)
    assert (caught.value.code, caught.value.where) == ("WDS408", A)
    assert len(FaultyFileSystem.reads) == FIRST_TRIES

    assert a_storage().read(A, 0, 50) == DATA[:50], "and it has passed"


def test_store_that_has_answered_is_tried_more_often() -> None:
    storage = a_storage()
    storage.read(A, 0, 50)
    FaultyFileSystem.reads.clear()
    FaultyFileSystem.fault.append(fail_with(ConnectionResetError("reset"), times=MAX_TRIES))

    with pytest.raises(StorageError, match="the store does not respond"):
        storage.read(A, 50, 100)
    assert len(FaultyFileSystem.reads) == MAX_TRIES


def test_short_reads_are_not_tried_more_often_after_an_answer() -> None:
    storage = a_storage()
    storage.read(A, 0, 50)
    FaultyFileSystem.reads.clear()
    FaultyFileSystem.fault.append(truncate)

    with pytest.raises(StorageError, match="short read"):
        storage.read(A, 50, 100)
    assert len(FaultyFileSystem.reads) == FIRST_TRIES


def test_permission_errors_are_not_retried() -> None:
    FaultyFileSystem.fault.append(fail_with(PermissionError("Forbidden")))

    with pytest.raises(PermissionDenied, match="Forbidden"):
        a_storage().read(A, 0, 50)
    assert len(FaultyFileSystem.reads) == 1


def test_file_of_other_size_than_expected_is_refused_before_read() -> None:
    storage = a_storage({A: 199, B: 200})

    assert storage.read(B, 0, 1) == DATA[-1:]
    with pytest.raises(StorageError, match="has 200 bytes, but had 199") as caught:
        storage.read(A, 0, 1)
    assert (caught.value.code, caught.value.where) == ("WDS403", A)
    assert len(FaultyFileSystem.reads) == 1


def test_file_replaced_during_reads_is_refused() -> None:
    storage = FsspecStorage("faulty://store/data/", {A: 200}, recheck_seconds=0.0)
    assert storage.read(A, 0, 5) == DATA[:5]
    FaultyFileSystem().pipe_file("/store/data/a.tar", DATA + b"more")

    with pytest.raises(StorageError, match="has 204 bytes, but had 200"):
        storage.read(A, 0, 5)


def test_file_size_is_requested_once() -> None:
    storage = a_storage({A: 200})
    for _ in range(3):
        storage.read(A, 0, 1)

    assert FaultyFileSystem.metadata_requests == ["/store/data/a.tar"]


def test_listing_reports_error_of_driver() -> None:
    FaultyFileSystem.denied.append(FileNotFoundError("The specified bucket does not exist"))
    with pytest.raises(InputError, match="no such bucket"):
        a_storage().files()
    FaultyFileSystem.denied[:] = [type("NoCredentialsError", (Exception,), {})("Unable to locate credentials")]
    with pytest.raises(PermissionDenied, match="no credentials"):
        a_storage().files()


def test_errors_of_multi_storage_client_name_the_missing_setting() -> None:
    missing = translate_remote(ValueError('Profile "a" not found in configuration files.'), "msc://a/x", "list")
    wrapped = RuntimeError("Failed to LIST")
    wrapped.__cause__ = type("NoCredentialsError", (Exception,), {})("Unable to locate credentials")
    anonymous = translate_remote(wrapped, "msc://a/x", "list")

    assert isinstance(missing, StorageError)
    assert "MSC_CONFIG" in missing.hint
    assert isinstance(anonymous, PermissionDenied)
    assert anonymous.hint.startswith("configure credentials")


def test_store_without_driver_reports_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as if it were not installed
    for protocol in ("gs", "gcs"):
        monkeypatch.delitem(opened_drivers, protocol, raising=False)
    for url, command in (
        ("gs://bucket/x", "pip install 'wdsctl[gcs]'"),
        ("msc://profile/x", "pip install multi-storage-client"),
    ):
        with pytest.raises(InputError) as caught:
            FsspecStorage(url).files()
        assert (caught.value.code, caught.value.hint) == ("WDS406", command)
    with pytest.raises(InputError, match="no installed driver for foo://") as caught:
        FsspecStorage("foo://user:secret@host/x").files()
    assert caught.value.where == "foo://host/x"


@pytest.mark.parametrize(
    ("url", "module", "hint"),
    [
        ("msc://profile/x", "boto3", "pip install boto3"),
        ("msc://profile/x", "google.cloud", "install the package that has the module google.cloud"),
        ("msc://profile/x", "multistorageclient", "pip install multi-storage-client"),
        ("hf://datasets/x", "huggingface_hub.errors", "pip install 'wdsctl[hf]'"),
    ],
)
def test_package_that_installed_driver_needs_is_named(url: str, module: str, hint: str) -> None:
    try:
        try:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        except ModuleNotFoundError as cause:
            raise ImportError("install the extras of the client") from cause
    except ImportError as error:
        translated = translate_remote(error, url, "read")

    assert (translated.code, translated.hint) == ("WDS406", hint)
    assert ("needs" in translated.message) == (module in ("boto3", "google.cloud"))


def test_storage_pickles_without_open_connections() -> None:
    storage = a_storage({A: 200})
    storage.read(A, 0, 1)

    assert pickle.loads(pickle.dumps(storage)).read(A, 5, 5) == DATA[5:10]  # noqa: S301 - our own


def test_storage_works_in_forked_process_and_its_parent() -> None:
    with s3_server():
        fsspec.filesystem("s3").pipe_file("bucket/forked/a.tar", DATA)
        path = "s3://bucket/forked/a.tar"
        storage = FsspecStorage("s3://bucket/forked", {path: len(DATA)})
        assert storage.read(path, 0, 5) == DATA[:5]

        assert run_in_fork(lambda: storage.read(path, 5, 5)) == DATA[5:10]
        assert storage.read(path, 10, 5) == DATA[10:15]


def run_in_fork(fn: Callable[[], bytes]) -> bytes:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: this test is about those of fsspec
        child = os.fork()
    if child == 0:
        gc.freeze()  # garbage of other tests, which may wait for threads that the child does not have
        try:
            os.write(write, fn())
        except BaseException:  # noqa: BLE001 - whatever it is, it must not run on as a second pytest
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    return output


def http_error(name: str, status: int) -> FileNotFoundError:
    """The error that fsspec's HTTP driver raises for a file, whatever the server answered."""
    error = FileNotFoundError("http://store/a.tar")
    kind: type[Exception] = type(name, (Exception,), {"status": status})
    error.__cause__ = kind("as the server says")
    return error


@pytest.mark.parametrize(
    ("name", "status", "kind", "requests"),
    [
        ("ClientResponseError", 503, StorageDown, FIRST_TRIES),
        ("ClientConnectionError", 0, StorageDown, FIRST_TRIES),
        ("ClientResponseError", 403, PermissionDenied, 1),
        ("ClientResponseError", 404, StorageError, 1),
    ],
)
def test_unavailable_server_is_not_reported_as_missing_file(
    name: str, status: int, kind: type[WdsctlError], requests: int
) -> None:
    FaultyFileSystem.denied.append(http_error(name, status))
    calls: list[Callable[[], object]] = [lambda: a_storage({A: 200}).read(A, 0, 1)]
    if status != 404:
        calls += [lambda: a_storage().exists(A), lambda: a_storage().sizes([A])]

    for call in calls:
        FaultyFileSystem.metadata_requests.clear()
        with pytest.raises(WdsctlError) as caught:
            call()
        assert (type(caught.value), len(FaultyFileSystem.metadata_requests)) == (kind, requests)


def test_traceback_contains_no_signature() -> None:
    url = "https://host/a.tar?X-Amz-Signature=secret"
    denied = PermissionError(f"403, url='{url}'")
    denied.__cause__ = ValueError(url)
    FaultyFileSystem.fault.append(fail_with(denied))

    with pytest.raises(PermissionDenied) as caught:
        a_storage().read(A, 0, 50)

    lines = "".join(traceback.format_exception(caught.value))
    assert "PermissionError: 403, url='https://host/a.tar'" in lines
    assert "secret" not in lines


def s3_error(code: str, message: str, status: int) -> OSError:
    """The error that s3fs raises, with botocore's as its cause."""
    error = OSError(errno.EIO, message)
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    kind: type[Exception] = type("ClientError", (Exception,), {"response": answer})
    error.__cause__ = kind(message)
    return error


def test_busy_store_is_recognized_by_status_code() -> None:
    FaultyFileSystem.fault.append(fail_with(s3_error("TooManyRequests", "An error occurred (TooManyRequests)", 429)))

    with pytest.raises(StorageDown, match="TooManyRequests"):
        a_storage().read(A, 0, 50)
    assert len(FaultyFileSystem.reads) == FIRST_TRIES


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (
            s3_error("PermanentRedirect", "The bucket must be addressed elsewhere", 301),
            StorageDown,
            "AWS_DEFAULT_REGION",
        ),
        (s3_error("AuthorizationHeaderMalformed", "the region 'a' is wrong", 400), StorageDown, "AWS_DEFAULT_REGION"),
        (s3_error("InvalidToken", "The provided token is malformed", 400), PermissionDenied, "credentials"),
    ],
)
def test_wrong_region_and_invalid_token_are_reported_with_hint(
    error: OSError, kind: type[WdsctlError], hint: str
) -> None:
    FaultyFileSystem.fault.append(fail_with(error))

    with pytest.raises(kind) as caught:
        a_storage().read(A, 0, 50)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "call", [FsspecStorage.size, FsspecStorage.facts, lambda storage, path: storage.read(path, 0, 1)]
)
def test_store_that_reports_no_sizes_is_refused(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[FsspecStorage, str], object]
) -> None:
    info = FaultyFileSystem.info
    unsized = {"size": None}
    monkeypatch.setattr(FaultyFileSystem, "info", lambda self, path: {**info(self, path), **unsized})
    with pytest.raises(StorageError, match="does not report file sizes"):
        call(a_storage({A: 200}), A)
