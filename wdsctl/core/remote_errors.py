"""From what a driver raises to an error that says where, and one thing to try. Drivers are told by names, not imported.

fsspec's drivers raise Python's own errors where they can, and their libraries' where not: aiohttp's, botocore's,
google-auth's. Which of them is installed is the user's affair.
"""

from __future__ import annotations

import errno
from typing import TypeVar

from wdsctl.core.errors import InputError, PermissionDenied, StorageDown, StorageError, WdsctlError
from wdsctl.core.urls import protocol, shown

T = TypeVar("T")

#: Packages that open a kind of store, where fsspec has none of its own.
DRIVERS = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp requests"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    "hf": "huggingface_hub",
    "msc": "multi-storage-client",
    "oss": "ossfs",
    "oci": "ocifs",
    "webdav": "webdav4",
}

_NO_CREDENTIALS = frozenset(
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
_TRANSIENT = frozenset(
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
_BUSY = frozenset({errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, getattr(errno, "EREMOTEIO", errno.EIO)})
_BUSY_STATUS = frozenset({408, 429, 500, 502, 503, 504})


def meant(answer: T) -> T | Exception:
    """What a driver's error is about; any other answer as it is.

    fsspec's driver for HTTP says that a file does not exist, whatever its server answers when it is asked about it.
    The cause tells.
    """
    cause = answer.__cause__ if isinstance(answer, FileNotFoundError) else None
    if isinstance(cause, Exception) and (is_transient(cause) or _status(cause) not in (0, 404, 410)):
        return cause
    return answer


def is_transient(error: BaseException) -> bool:
    """Whether the same request may well succeed a moment later."""
    if _names(error) & _TRANSIENT or _status(error) in _BUSY_STATUS:
        return True
    return isinstance(error, OSError) and error.errno in _BUSY


def translate_remote(error: BaseException, url: str, doing: str) -> WdsctlError:
    """The error to raise in the place of a driver's, in the driver's words and caused by it. WDS402, WDS404, WDS406 or
    WDS408.

    What is missing is an InputError where the root itself was asked for (`doing` is "list"), else a StorageError.
    """
    told = _translated(error, url, doing)
    told.__cause__ = _showable(error)
    return told


def _showable(error: BaseException) -> BaseException:
    """An error as a traceback may show it: where its words, or those of what led to it, have a signature or a password
    in a URL, another one of the same words without.
    """
    link: BaseException | None = error
    while link is not None and shown(str(link)) == str(link):
        link = link.__cause__ or link.__context__
    return error if link is None else RuntimeError(f"{type(error).__name__}: {shown(str(error))}")


def _translated(error: BaseException, url: str, doing: str) -> WdsctlError:
    if isinstance(error, ImportError) or (isinstance(error, ValueError) and "rotocol not known" in str(error)):
        return no_driver(url)
    where, words = shown(url), _words(error)
    is_anonymous = bool(_names(error) & _NO_CREDENTIALS)
    if is_anonymous or _is_forbidden(error):
        why = f"no credentials for this store ({words})" if is_anonymous else words
        return PermissionDenied(f"cannot {doing}: {why}", where=where, hint=_credentials(url))
    if isinstance(error, FileNotFoundError) or _status(error) == 404:
        return _missing(where, words, doing)
    hint = "run the same command again: finished work is kept"
    if is_transient(error):
        words, hint = f"the store does not answer ({words})", f"check the network and the endpoint, and {hint}"
        return StorageDown(f"cannot {doing}: {words}", where=where, hint=hint)
    if _status(error) in (301, 307) or "region" in words:
        hint = "set AWS_DEFAULT_REGION to the bucket's region, or AWS_ENDPOINT_URL to where it is"
        return StorageDown(f"cannot {doing}: {words}", where=where, hint=hint)
    return StorageError(f"cannot {doing}: {words}", where=where, hint=hint)


def _is_forbidden(error: BaseException) -> bool:
    """Of a token that is none of its own, S3 says that the request is bad."""
    status = _status(error)
    is_bad_token = status == 400 and "token" in str(error).lower()
    return isinstance(error, PermissionError) or status in (401, 403) or is_bad_token


def _missing(where: str, words: str, doing: str) -> WdsctlError:
    if doing == "list":
        return InputError(f"there is no such bucket or folder ({words})", where=where, hint="check the URL")
    return StorageError(
        f"cannot {doing}: there is no such object",
        where=where,
        hint="it was removed since it was indexed: run `wdsctl index` on the dataset",
    )


def no_driver(url: str) -> InputError:
    package = DRIVERS.get(protocol(url))
    return InputError(
        f"nothing that is installed opens {protocol(url)}:// URLs",
        where=shown(url),
        hint=f"pip install {package}" if package else "check the URL; fsspec names the stores that it knows",
        code="WDS406",
    )


def _credentials(url: str) -> str:
    if protocol(url) in ("s3", "s3a"):
        return (
            "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket, FSSPEC_S3_ANON=true"
        )
    return "give the driver credentials that may list and read there, as its own documentation says"


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _status(error: BaseException) -> int:
    """The HTTP status that an error carries, or 0. botocore's are the causes of those that s3fs raises."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    for name in ("status", "code", "status_code"):
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    return 0


def _words(error: BaseException) -> str:
    strerror = getattr(error, "strerror", None)
    return shown(" ".join(str(strerror or error).split())) or type(error).__name__
