"""Files that rows refer to: where they are, and that they are inside the folder that they belong to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from wdsctl.core.convert.source import LargePart
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.os_errors import translate
from wdsctl.core.printable import named
from wdsctl.core.urls import is_url

#: Who says where the references of rows begin; those of an index begin beside it, and nowhere else.
_OF_ROWS = "`-O base=FOLDER` says which folder references begin in"


def file_part(name: str, base: str, reference: str, where: str) -> LargePart:
    """The file that `reference` means, below the folder `base`, as a part that is read when its data is asked for.

    Raises DatasetError WDS230 where it leads outside (absolute, `..`, a link, a URL), WDS231 where there is no file.
    """
    path = inside(base, reference, where, begin=_OF_ROWS)
    try:
        status = os.stat(path)
        if not os.path.isfile(path):
            raise _missing(reference, "this is no file", where, _OF_ROWS)
        return LargePart(name, path, 0, status.st_size)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(reference, "there is no such file", where, _OF_ROWS) from error
    except OSError as error:
        raise translate(error, path, "read") from error


def inside(base: str, reference: str, where: str, *, begin: str = "") -> str:
    """The path of `reference` below `base`. Raises DatasetError WDS230 where it leads outside, or could.

    `begin`: what a user may do about the folder that references begin in, if anything.
    """
    if "\0" in reference or not reference.strip():
        raise _missing(reference, "this names no file", where, begin)
    if is_url(reference) or "://" in reference:
        raise _outside(reference, "is a URL, and nothing is fetched", where, begin)
    if os.path.isabs(reference):
        raise _outside(reference, "is absolute", where, begin)
    if ".." in reference.split("/"):
        raise _outside(reference, "has `..` in it", where, begin)
    path = os.path.join(base, reference)
    folder, name = os.path.split(path)
    real = os.path.join(_real(folder), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    if not is_below(_real(base), real):
        raise _outside(reference, "is a link that leads outside", where, begin)
    return path


def base_of(folder: str, references: Iterable[str], *, beside: Iterable[str] = ("images", "media", "data")) -> str:
    """The folder that references begin in: `folder`, unless none is there and some are in one `beside` it."""
    wanted = [reference for reference in references if not os.path.isabs(reference)]
    for base in (folder, *(os.path.join(folder, name) for name in beside)):
        if any(os.path.isfile(os.path.join(base, reference)) for reference in wanted if "\0" not in reference):
            return base
    return folder


def is_below(base: str, real: str) -> bool:
    """Whether a real path is in the folder `base`, a real path too."""
    return real.startswith(base if base.endswith("/") else f"{base}/")


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _outside(reference: str, what: str, where: str, begin: str) -> WdsctlError:
    return DatasetError(
        f"the reference {named(reference)!r} {what}: refused",
        hint=_with("references are relative, and stay in the folder of the file that has them", begin),
        where=where,
        code="WDS230",
    )


def _missing(reference: str, what: str, where: str, begin: str) -> WdsctlError:
    return DatasetError(
        f"{named(reference)!r}: {what}",
        hint=_with("check the file that names it", begin),
        where=where,
        code="WDS231",
    )


def _with(hint: str, begin: str) -> str:
    return f"{hint}; {begin}" if begin else hint
