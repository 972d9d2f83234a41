from __future__ import annotations

import errno
import os

import pytest

from wdsctl.core.errors import DatasetError, PermissionDenied, StorageDown, StorageError, translate_os_errors


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, StorageError, "WDS401"),
        (errno.EDQUOT, StorageError, "WDS401"),
        (errno.EACCES, PermissionDenied, "WDS402"),
        (errno.EPERM, PermissionDenied, "WDS402"),
        (errno.EROFS, PermissionDenied, "WDS402"),
        (errno.EIO, StorageError, "WDS404"),
        (errno.ESTALE, StorageError, "WDS404"),
        (errno.ECONNREFUSED, StorageDown, "WDS408"),
        (errno.EHOSTUNREACH, StorageDown, "WDS408"),
        (errno.ENOTCONN, StorageDown, "WDS408"),
        (errno.EMFILE, StorageDown, "WDS408"),
    ],
)
def test_errno_is_translated_to_error_with_code(number: int, kind: type[Exception], code: str) -> None:
    with pytest.raises(kind) as caught, translate_os_errors("some/where", "write"):
        raise OSError(number, os.strerror(number))

    error = caught.value
    assert isinstance(error, (StorageError, PermissionDenied))
    assert (error.code, error.where) == (code, "some/where")
    assert os.strerror(number) in error.message
    assert error.hint


def test_error_location_is_path_named_by_system() -> None:
    with pytest.raises(StorageError) as caught, translate_os_errors("the/folder"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "the/folder/file")

    assert caught.value.where == "the/folder/file"


def test_wdsctl_errors_pass_unchanged() -> None:
    original = StorageError("said already", hint="try this", where="there")

    with pytest.raises(StorageError) as caught, translate_os_errors("elsewhere"):
        raise original

    assert caught.value is original


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(DatasetError), translate_os_errors("somewhere"):
        raise DatasetError("not the system's", hint="none")
    with pytest.raises(KeyError), translate_os_errors("somewhere"):
        raise KeyError("a bug")


def test_error_location_hides_name_of_draft() -> None:
    with pytest.raises(StorageError) as caught, translate_os_errors("some/catalog.sqlite", "write"):
        raise OSError(errno.EIO, "bad", "some/.catalog.sqlite.12.partial")
    assert caught.value.where == "some/catalog.sqlite"
