"""Translate errors of fsspec's drivers, retry requests, and check whether remote files were replaced.

Drivers raise Python's errors, or those of their libraries (aiohttp, botocore, google-auth). This module recognises
errors by the names of their classes, since the libraries may not be installed.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from wdsctl.core.errors import InputError, PermissionDenied, StorageDown, StorageError, WdsctlError
from wdsctl.core.extras import install_command
from wdsctl.core.urls import is_signed, protocol, redact_secrets
from wdsctl.core.waits import end_wait, expect_answer, note_wait

T = TypeVar("T")

#: Packages with drivers for stores, by protocol, if fsspec has no driver of its own.
DRIVER_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    "hf": "huggingface_hub",
    "msc": "multi-storage-client",
    "oss": "ossfs",
    "oci": "ocifs",
    "webdav": "webdav4",
}

_NAMESPACES = ("azure", "google")  # of many packages

_CREDENTIAL_ERROR_NAMES = frozenset(
    [
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "TokenRetrievalError",
        "SSOTokenLoadError",
        "UnauthorizedSSOTokenError",
        "ProfileNotFound",
        "DefaultCredentialsError",
        "RefreshError",
        "ClientAuthenticationError",
    ]
)
_TRANSIENT_ERROR_NAMES = frozenset(
    [
        "TimeoutError",
        "ConnectionError",
        "ClientConnectionError",
        "ClientPayloadError",
        "HTTPClientError",
        "IncompleteReadError",
        "ResponseStreamingError",
        "ServiceRequestError",
        "ServiceResponseError",
    ]
)
#: Raised by drivers that compare checksums. The bytes were damaged on the way, and may arrive whole the next time.
_DAMAGE_ERROR_NAMES = frozenset(["FlexibleChecksumError", "ChecksumError"])
_BUSY_ERRNOS = frozenset({errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, getattr(errno, "EREMOTEIO", errno.EIO)})
_BUSY_HTTP_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


def unwrap_driver_error(answer: T) -> T | Exception:
    """Return the real cause of a driver's error; any other answer unchanged.

    fsspec's HTTP driver raises FileNotFoundError for any failed request about a file. The cause has the server's
    status.
    """
    cause = answer.__cause__ if isinstance(answer, FileNotFoundError) else None
    if isinstance(cause, WdsctlError):
        return cause
    if isinstance(cause, Exception) and (is_transient(cause) or http_status(cause) not in (0, 404, 410)):
        return cause
    return answer


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    if (
        _class_names(error) & (_TRANSIENT_ERROR_NAMES | _DAMAGE_ERROR_NAMES)
        or http_status(error) in _BUSY_HTTP_STATUSES
    ):
        return True
    return isinstance(error, OSError) and error.errno in _BUSY_ERRNOS


def translate_remote(error: BaseException, url: str, verb: str) -> WdsctlError:
    """Build the WdsctlError for a driver's error, which becomes its cause.

    Its code is WDS402, WDS404, WDS406 or WDS408. A missing root is an InputError (`verb` is "list" or "write"), other
    missing files are StorageErrors.
    """
    translated = _wdsctl_error_from_driver(error, url, verb)
    translated.__cause__ = _redacted_error(error)
    return translated


def _redacted_error(error: BaseException) -> BaseException:
    """Return the error for a traceback; a redacted copy if a message in its chain contains a secret."""
    link: BaseException | None = error
    while link is not None and redact_secrets(str(link)) == str(link):
        link = link.__cause__ or link.__context__
    if link is None:
        return error
    kind = FileNotFoundError if is_missing_error(error) else RuntimeError  # callers ask whether an object is missing
    return kind(f"{type(error).__name__}: {redact_secrets(str(error))}")


def _wdsctl_error_from_driver(error: BaseException, url: str, verb: str) -> WdsctlError:
    if isinstance(error, ImportError) or (isinstance(error, ValueError) and "rotocol not known" in str(error)):
        return no_driver_error(url, error)
    where, message = redact_secrets(url), _error_text(error)
    cause = error.__cause__ or error.__context__ or error  # multi-storage-client wraps the errors of its providers
    is_anonymous = bool((_class_names(error) | _class_names(cause)) & _CREDENTIAL_ERROR_NAMES)
    if is_anonymous or _is_forbidden(error):
        why = f"no credentials for this store ({message})" if is_anonymous else message
        hint = _credentials_hint(url, verb, is_anonymous)
        if s3_error_code(error) == "RequestTimeTooSkewed" or "request time" in message:
            hint = "set the clock of this machine: the store refuses signatures that are more than 15 minutes off"
        return PermissionDenied(f"cannot {verb}: {why}", where=where, hint=hint)
    if isinstance(error, NotImplementedError) or is_missing_error(error):
        return _missing_error(url, error, verb)
    hint = "run the same command again: finished work is kept"
    if is_transient(error):
        is_damage = bool(_class_names(error) & _DAMAGE_ERROR_NAMES)
        what = "the bytes were damaged on the way" if is_damage else "the store does not respond"
        message, hint = f"{what} ({message})", f"check the network and the endpoint, and {hint}"
        return StorageDown(f"cannot {verb}: {message}", where=where, hint=hint)
    if http_status(error) in (301, 307) or "region" in message:
        hint = "set AWS_DEFAULT_REGION to the region of the bucket, or AWS_ENDPOINT_URL to its endpoint"
        return StorageDown(f"cannot {verb}: {message}", where=where, hint=hint)
    if protocol(url) == "msc" and isinstance(error, ValueError):
        hint = "correct the URL, or the configuration of multi-storage-client: MSC_CONFIG may name its file"
    return StorageError(f"cannot {verb}: {message}", where=where, hint=hint)


def _is_forbidden(error: BaseException) -> bool:
    """Whether access was denied. S3 reports an invalid token as a bad request."""
    status = http_status(error)
    is_bad_token = status == 400 and "token" in str(error).lower()
    is_google_403 = isinstance(error, OSError) and str(error).startswith("Forbidden: ")  # gcsfs drops the status
    return isinstance(error, PermissionError) or status in (401, 403) or is_bad_token or is_google_403


def _missing_error(url: str, error: BaseException, verb: str) -> WdsctlError:
    """Build the error for something that the store does not have: an object, a bucket, or a kind of request."""
    where, message = redact_secrets(url), _error_text(error)
    if isinstance(error, NotImplementedError):
        hint = "write to a disk, or to s3://, gs:// or az://"
        return InputError(f"cannot {verb}: {protocol(url)}:// does not support it", where=where, hint=hint)
    if verb == "list":
        return InputError(f"no such bucket or folder ({message})", where=where, hint="check the URL")
    if verb == "write":
        return InputError(
            f"cannot write: no such bucket ({message})", where=where, hint="check the URL, or create the bucket"
        )
    return StorageError(
        f"cannot {verb}: the object does not exist",
        where=where,
        hint="the object was removed after it was indexed: run `wdsctl index` on the dataset",
    )


def _missing_package_of_driver(error: BaseException, package: str) -> str:
    """The module that an installed driver failed to import; empty if the driver itself is not installed."""
    link: BaseException | None = error
    missing = ""
    while link is not None:
        missing = link.name or missing if isinstance(link, ModuleNotFoundError) else missing
        link = link.__cause__ or link.__context__
    return "" if missing.partition(".")[0].replace("_", "") == re.sub("[-_]", "", package) else missing


def no_driver_error(url: str, error: BaseException | None = None) -> InputError:
    """Build the error for a URL without a driver. `error`: of its import."""
    package = DRIVER_PACKAGES.get(protocol(url))
    missing = _missing_package_of_driver(error, package) if error is not None and package else ""
    if missing:
        is_package = "." not in missing and missing not in _NAMESPACES
        return InputError(
            f"the driver of {protocol(url)}:// URLs needs {missing}, which is not installed",
            where=redact_secrets(url),
            hint=install_command(missing) if is_package else f"install the package that has the module {missing}",
            code="WDS406",
        )
    return InputError(
        f"no installed driver for {protocol(url)}:// URLs",
        where=redact_secrets(url),
        hint=install_command(package)
        if package
        else "check the URL; the documentation of fsspec lists the supported protocols",
        code="WDS406",
    )


def _credentials_hint(url: str, verb: str, is_anonymous: bool) -> str:
    if is_signed(url):
        return "sign the URL again and pass the new one, which keeps the same catalog: the signature may have expired"
    if verb == "write" and not is_anonymous:
        return (
            "allow these credentials to write, list and delete objects at the destination, or choose another "
            "destination"
        )
    if protocol(url) in ("s3", "s3a"):
        return (
            "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket, FSSPEC_S3_ANON=true"
        )
    return "configure credentials with list and read permission, as the documentation of the driver describes"


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def is_missing_error(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or http_status(error) == 404


def is_precondition_error(error: BaseException) -> bool:
    """Whether a conditional request failed because the object has another version, or exists."""
    is_azure = "ResourceExistsError" in _class_names(error)
    return isinstance(error, FileExistsError) or http_status(error) == 412 or is_azure


def s3_error_code(error: BaseException) -> str:
    """Return the code of S3's answer, such as `NoSuchBucket`; empty for other errors."""
    return str(_s3_response(error).get("Error", {}).get("Code", ""))


def _s3_response(error: BaseException) -> dict[str, Any]:
    """Return the answer that botocore's errors carry. s3fs raises them as causes of its own."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            return response
    return {}


def http_status(error: BaseException) -> int:
    """Return the HTTP status that an error carries, or 0."""
    response = _s3_response(error)
    if response:
        return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    # Those of huggingface_hub have the answer, whose status is `status_code`.
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "code", "status_code"):
            value = getattr(holder, name, None)
            if isinstance(value, int):
                return value
    return 0


def _error_text(error: BaseException) -> str:
    strerror = getattr(error, "strerror", None)
    return redact_secrets(" ".join(str(strerror or error).split())) or type(error).__name__


FIRST_TRIES = 4  # of a request, including the first, until the store has answered: its URL may be wrong
MAX_TRIES = 7  # of a request to a store that has answered: with the pauses, they outlast 40 s without a network
FIRST_PAUSE_SECONDS = 0.2  # before the second try; four times as long before each later one
MAX_PAUSE_SECONDS = 12.8
SHOWN_PAUSE_SECONDS = 1.0  # the progress shows a retry that begins after such a pause
_ANSWER_SECONDS = 30.0  # a retry without an answer is shown for this time
_SLOW_ANSWER_SECONDS = 5.0  # the progress shows a request without an answer after this time: drivers retry, too
SILENCE_SECONDS = 30.0  # a request without an answer is reported after this time
MAX_RETRY_SECONDS = 60.0  # no try begins after this time: drivers also retry, some of them for minutes
FIRST_RETRY_SECONDS = 10.0  # the same until the store has answered


#: Called before every try with the redacted URL, and the number of earlier tries.
OnRetry = Callable[[str, int], None]


def ignore_retry(what: str, tried: int) -> None:
    """Do nothing."""


_answering_stores: set[str] = set()  # that have answered a request of this process


def note_answer(url: str) -> None:
    """Remember that the store of a URL has answered: from now on, its requests get MAX_TRIES."""
    store = _store_of(url)
    _answering_stores.add(store)
    end_wait(redact_secrets(store))


def note_retry(url: str, tried: int, pause_seconds: float) -> None:
    """Let the progress show that the store of a URL is asked again after a pause, unless the pause is short."""
    if pause_seconds >= SHOWN_PAUSE_SECONDS:
        store = redact_secrets(_store_of(url))
        note_wait(store, f"waiting for {store} (retry {tried})", pause_seconds + _ANSWER_SECONDS)


def _store_of(url: str) -> str:
    """Return the protocol and the bucket or host of a URL."""
    return "/".join(url.rpartition("::")[2].split("/", 3)[:3])


#: Called with a redacted URL while the driver has no answer, and the seconds since the request.
OnSilence = Callable[[str, float], None]


def ignore_silence(what: str, seconds: float) -> None:
    """Do nothing."""


class RetryPolicy(NamedTuple):
    first_pause_seconds: float = FIRST_PAUSE_SECONDS
    max_retry_seconds: float = MAX_RETRY_SECONDS
    on_retry: OnRetry = ignore_retry
    on_silence: OnSilence = ignore_silence
    silence_seconds: float = SILENCE_SECONDS

    def attempts(self, url: str) -> Iterator[int]:
        """Yield the number of earlier tries, from 0, while another try may help. Pauses before each retry."""
        begun, what = time.monotonic(), redact_secrets(url)
        has_answered = _store_of(url) in _answering_stores
        max_seconds = self.max_retry_seconds if has_answered else min(FIRST_RETRY_SECONDS, self.max_retry_seconds)
        store = redact_secrets(_store_of(url))
        expect_answer(store, f"waiting for {store}", _SLOW_ANSWER_SECONDS)
        try:
            for tried in range(MAX_TRIES if has_answered else FIRST_TRIES):
                if tried:
                    if time.monotonic() - begun > max_seconds:
                        return
                    note_retry(url, tried, self.pause_before(tried))
                    time.sleep(self.pause_before(tried))
                self.on_retry(what, tried)
                yield tried
        finally:  # the caller needs no other try
            end_wait(store)

    def wait_for(self, future: Future[Any], url: str) -> None:
        """Wait for a request of a driver, which may retry for minutes: report it again after twice the time."""
        seconds = 0.0
        while wait([future], timeout=max(seconds, self.silence_seconds)).not_done:
            seconds += max(seconds, self.silence_seconds)
            self.on_silence(redact_secrets(url), seconds)

    def pause_before(self, tried: int) -> float:
        """Seconds to wait before another try, after `tried` of them."""
        return min(self.first_pause_seconds * 4.0 ** (tried - 1), MAX_PAUSE_SECONDS)


def call_with_retries(call: Callable[[], T], url: str, verb: str, policy: RetryPolicy) -> T:
    """Call a driver, and retry after transient errors. Raises WdsctlErrors only."""
    for _ in policy.attempts(url):
        result = call_or_error(call)
        if not (isinstance(result, Exception) and is_transient(result)):
            break
    if isinstance(result, Exception):
        raise translate_remote(result, url, verb)
    note_answer(url)
    return result


def call_or_error(call: Callable[[], T]) -> T | Exception:
    """Call a driver, and return its result or its unwrapped error. Raises WdsctlErrors."""
    try:
        return call()
    except WdsctlError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers are third-party code, and may raise any class
        return unwrap_driver_error(error)


#: Names of facts that identify the content; stores that have none of them may have a time.
_CONTENT_TAG_NAMES = ("etag", "generation", "md5hash", "content_md5", "md5", "checksum", "sha256", "blob_id")
_TIME_NAMES = ("mtime", "lastmodified", "last_modified", "last-modified", "updated", "created")


def etag_number(facts: Mapping[str, Any]) -> int:
    """Return a 63-bit number that identifies the content, for use instead of a modification time.

    It is a hash of the etag or a similar fact; without one, the time in nanoseconds; 0 if the store reports neither.
    """
    lower = {str(name).lower(): value for name, value in facts.items()}
    for name in _CONTENT_TAG_NAMES:
        if lower.get(name):
            return _hash_number(str(lower[name]).strip('"'))  # some servers quote an etag only in some answers
    for name in _TIME_NAMES:
        if lower.get(name):
            return _nanoseconds(lower[name])
    return 0


def _nanoseconds(when: Any) -> int:
    if isinstance(when, datetime):
        return int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000
    if isinstance(when, (int, float)):
        return round(when * 1_000_000) * 1000  # some drivers list floats, whose nanoseconds are rounding errors
    return _hash_number(str(when))


def _hash_number(text: str) -> int:
    from hashlib import blake2b  # loads OpenSSL, and local datasets need this module too

    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


RECHECK_SECONDS = 60.0  # seconds after which a file is checked again


class RemoteFileChecker:
    """Detects files that were replaced. `expected`: sizes in bytes by path; other files are not checked.

    `recheck_seconds`: the time after which a file is checked again.
    """

    def __init__(self, expected: Mapping[str, int], recheck_seconds: float = RECHECK_SECONDS) -> None:
        self._expected = expected
        self._recheck_seconds = recheck_seconds
        self._seen: dict[str, tuple[float, int]] = {}  # time of the last check, and the content's number then

    def files_due(self, paths: Iterable[str]) -> list[str]:
        """Return the files to check before they are read."""
        now = time.monotonic()
        return sorted(
            path
            for path in paths
            if path in self._expected and (path not in self._seen or now - self._seen[path][0] >= self._recheck_seconds)
        )

    def check(self, path: str, facts: Mapping[str, Any]) -> None:
        """Compare the store's facts of a file with earlier ones. Raises StorageError WDS403 if they differ."""
        if facts["size"] != self._expected[path]:
            raise StorageError(
                f"the shard has {facts['size']:,} bytes, but had {self._expected[path]:,} when it was indexed",
                where=redact_secrets(path),
                hint="restore the shard; if the change is intended, run `wdsctl index` on the dataset",
                code="WDS403",
            )
        # HTTP servers with the same files may each have different etags and times.
        mark = 0 if protocol(path) in ("http", "https") else etag_number(facts)
        if self._seen.get(path, (0.0, mark))[1] != mark:
            raise replaced_error(path)
        self._seen[path] = time.monotonic(), mark

    def mark_of(self, path: str) -> int:
        """Return the number of the content that a file had when it was checked; 0 if unknown."""
        return self._seen[path][1] if path in self._seen else 0


def replaced_error(url: str) -> StorageError:
    return StorageError(
        "the shard was replaced during the read",
        where=redact_secrets(url),
        hint="restore the shard; if the change is intended, run `wdsctl index` on the dataset and start again",
        code="WDS403",
    )


def ignored_range_error(url: str, received: int, requested: int) -> StorageDown:
    return StorageDown(
        f"the store ignores range requests: it sends {received:,} bytes instead of {requested:,}",
        where=redact_secrets(url),
        hint="copy the files to a disk or an object store, or serve them with a web server that supports range "
        "requests, such as nginx or `rclone serve http FOLDER`",
    )
