"""Read ranges and lists of files on the Hugging Face Hub, with the limits and checks that web servers have.

The Hub redirects to servers for large files. The driver alone reads answers of any length, and follows redirects to any
address.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from wdsctl.core.errors import StorageDown, StorageError
from wdsctl.core.storage.answer_limits import (
    GRACE_SECONDS,
    MAX_WHOLE_BYTES,
    MIN_BYTES_PER_SECOND,
    REDIRECT_HINT,
    ListProgress,
    check_page,
    is_public_address,
    redirect_message,
    too_long_error,
)
from wdsctl.core.storage.remote_errors import ignored_range_error
from wdsctl.core.urls import redact_secrets

_MAX_REDIRECTS = 10
_TIMEOUT_SECONDS = 30.0  # between two bytes
_MAX_ERROR_BYTES = 1 << 20  # of an answer that is an error


def is_hub(filesystem: Any) -> bool:
    """Whether this is the driver of the Hub."""
    return type(filesystem).__name__ == "HfFileSystem"


def read_hub_range(filesystem: Any, path: str, start: int, stop: int) -> bytes:
    """Read a range through `HfFileSystem`. Raises the errors of its package, and StorageError."""
    client: Any = _driver_functions().get_session()
    if not hasattr(client, "build_request"):  # before version 1
        data: bytes = filesystem.cat_file(path, start=start, end=stop)
        return data
    headers = {
        **filesystem._api._build_hf_headers(),  # noqa: SLF001 - so its own files do it
        "Range": f"bytes={start}-{stop - 1}",
        "Accept-Encoding": "identity",
    }
    request = client.build_request("GET", filesystem.url(path), headers=headers, timeout=_TIMEOUT_SECONDS)
    was_public = False
    for _ in range(_MAX_REDIRECTS):
        with closing(client.send(request, stream=True, follow_redirects=False)) as response:
            is_public = _is_connection_public(response)
            if was_public and not is_public:
                raise _redirect_error(request.url)
            if response.next_request is None:
                return _read(response, stop - start)
            was_public, request = is_public, response.next_request  # without credentials for another server
        if was_public and not _is_host_public(request.url.host):
            raise _redirect_error(request.url)
    raise StorageError("the server redirects without end", where=redact_secrets(str(request.url)), hint="try again")


@contextmanager
def bounded_lists(filesystem: Any) -> Iterator[None]:
    """Bound the lists that the driver of the Hub reads in the block; does nothing for other drivers.

    The block raises StorageError for a list without end, for a page of more than `MAX_WHOLE_BYTES` bytes, and for a
    redirect from a public server to a private address; StorageDown for a page that arrives too slowly.
    """
    client: Any = _driver_functions().get_session() if is_hub(filesystem) else None
    if not hasattr(client, "event_hooks"):  # before version 1
        yield
        return
    lists: ListProgress = {}

    def check_request(request: Any) -> None:
        check_page(lists, str(request.url))
        request.headers["Accept-Encoding"] = "identity"

    def check_response(response: Any) -> None:
        location = response.headers.get("Location") if response.is_redirect else None
        if location and _is_connection_public(response) and not _is_host_public(response.url.join(location).host):
            raise _redirect_error(response.url.join(location))
        if "Range" not in response.request.headers:  # other threads may read ranges meanwhile
            response.headers.pop("Content-Encoding", None)  # none was requested; a few bytes could become gigabytes
            response.stream = _bounded_stream(response)

    hooks = [(client.event_hooks["request"], check_request), (client.event_hooks["response"], check_response)]
    for found, hook in hooks:
        found.append(hook)
    try:
        yield
    finally:
        for found, hook in hooks:
            found.remove(hook)


def _bounded_stream(response: Any) -> Any:
    """The stream of an answer whose length and speed are checked while the driver reads it."""
    stream, package = response.stream, import_module(type(response).__module__.partition(".")[0])

    class BoundedStream(package.SyncByteStream):  # type: ignore[name-defined,misc]
        def __iter__(self) -> Iterator[bytes]:
            received = 0
            for piece in _timed_pieces(stream, str(response.url)):
                received += len(piece)
                if received > MAX_WHOLE_BYTES:
                    raise too_long_error(str(response.url))
                yield piece

        def close(self) -> None:
            stream.close()

    return BoundedStream()


def _timed_pieces(pieces: Iterable[bytes], url: str) -> Iterator[bytes]:
    """Raises StorageDown if they arrive too slowly."""
    begun, received = time.monotonic(), 0
    for piece in pieces:
        received += len(piece)
        seconds = time.monotonic() - begun
        if seconds > GRACE_SECONDS + received / MIN_BYTES_PER_SECOND:
            raise StorageDown(
                f"only {received:,} bytes arrived in {seconds:.0f} s",
                where=redact_secrets(url),
                hint="check the network and the server, and run the same command again",
            )
        yield piece


def _driver_functions() -> Any:
    return import_module("huggingface_hub.utils")


def _read(response: Any, limit: int) -> bytes:
    is_error = response.status_code >= 400
    received = bytearray()
    for piece in _timed_pieces(response.iter_raw(), str(response.url)):
        received += piece
        if is_error and len(received) > _MAX_ERROR_BYTES:
            break
        if not is_error and len(received) > limit:
            stated = response.headers.get("Content-Length", "")
            received_bytes = max(len(received), int(stated) if stated.isdecimal() else 0)
            raise ignored_range_error(str(response.url), received_bytes, limit)
    if is_error:
        names = ("x-error-code", "x-error-message", "x-request-id", "retry-after", "www-authenticate", "content-type")
        kept = {name: response.headers[name] for name in names if name in response.headers}
        _driver_functions().hf_raise_for_status(
            type(response)(response.status_code, headers=kept, content=bytes(received), request=response.request)
        )
    return bytes(received)


def _is_connection_public(response: Any) -> bool:
    """Whether the address that was connected to is public; that of a proxy says nothing, and counts so, too."""
    stream = response.extensions.get("network_stream")
    address = stream.get_extra_info("server_addr") if stream is not None else None
    return _is_host_public(response.url.host) if address is None else is_public_address(str(address[0]))


def _is_host_public(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True  # no request reaches it
    return all(is_public_address(str(each[4][0])) for each in found)


def _redirect_error(url: Any) -> StorageError:
    return StorageError(redirect_message(url.host), where=redact_secrets(str(url)), hint=REDIRECT_HINT)
