"""Files that rows refer to: where they are, and that they are inside the folder that they belong to.

Data says which files it means, and never where files may be: that is the folder of the file that has the rows, or the
one that somebody names on the command line (`-O base=FOLDER`). Below that, absolute paths and `..` are references like
others.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from functools import lru_cache

from wdsctl.core.beneath import is_beneath
from wdsctl.core.convert.source import LargePart
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.os_errors import translate
from wdsctl.core.printable import named
from wdsctl.core.urls import is_url

#: Who says where the references of rows begin; those of an index begin beside it, and nowhere else.
_OF_ROWS = "`-O base=FOLDER` says which folder references begin in"


def file_part(name: str, base: str, reference: str, where: str, *, allowed: str = "") -> LargePart:
    """The file that `reference` means, below the folder `base`, as a part that is read when its data is asked for.

    `allowed`: the folder that somebody named, where references begin, and below which they may lead anywhere. Raises
    DatasetError WDS230 where one leads outside (absolute, `..`, a link, a URL), WDS231 where there is no file.
    """
    path = _below(allowed, base, reference, where) if allowed else inside(base, reference, where, begin=_OF_ROWS)
    try:
        status = os.stat(path)
        if not os.path.isfile(path):
            raise _missing(reference, "this is no file", where, _OF_ROWS)
        return LargePart(name, path, 0, status.st_size, allowed or base)
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
        raise _outside(reference, "is a URL, and nothing is fetched", where)
    if os.path.isabs(reference):
        raise _outside(reference, "is given by its absolute path", where, _way_out(begin, reference))
    if ".." in reference.split("/"):
        raise _outside(reference, "has `..` in it", where, _way_out(begin, os.path.join(base, reference)))
    path = os.path.join(base, reference)
    folder, name = os.path.split(path)
    real = os.path.join(_real(folder), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    if not (is_below(_real(base), real) or is_beneath(path, (base,))):
        raise _outside(reference, "is a link that leads outside", where, _way_out(begin, real))
    return path


def _below(allowed: str, base: str, reference: str, where: str) -> str:
    """The path of `reference`, from the folder `allowed` or else from `base`, if it is below `allowed`."""
    if "\0" in reference or not reference.strip():
        raise _missing(reference, "this names no file", where, _OF_ROWS)
    if is_url(reference) or "://" in reference:
        raise _outside(reference, "is a URL, and nothing is fetched", where)
    paths = dict.fromkeys(os.path.join(folder, reference) for folder in (allowed, base))  # one, where it is absolute
    below = [path for path in paths if is_below(_real(allowed), _resolved(path))]
    if not below:
        wider = _way_out(_OF_ROWS, next(reversed(paths)))
        raise _outside(reference, f"leads out of {named(allowed)}, which `-O base=` names", where, wider)
    return next((path for path in below if os.path.isfile(path)), below[0])


def path_below(allowed: str, base: str, reference: str, where: str) -> str:
    """The path of the file from the folder `allowed`, for keys: they do not depend on where the folder lies.

    Raises as `file_part`.
    """
    if not (os.path.isabs(reference) or ".." in reference.split("/")):
        return reference
    return os.path.relpath(os.path.abspath(_below(allowed, base, reference, where)), os.path.abspath(allowed))


def _resolved(path: str) -> str:
    """The real path, folders from memory: rows share them."""
    folder, name = os.path.split(path)
    real = os.path.join(_real(folder), name)
    return os.path.realpath(real) if name in ("", ".", "..") or os.path.islink(real) else real


def _way_out(begin: str, path: str) -> str:
    """What allows a path, where anybody may say so."""
    if not begin:
        return ""
    folder = os.path.dirname(os.path.normpath(os.path.abspath(path)))
    return f"if the file is yours, `-O base={shlex.quote(folder)}` allows what lies below that folder, `-O base=/` all"


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


def _outside(reference: str, what: str, where: str, way_out: str = "") -> WdsctlError:
    return DatasetError(
        f"the reference {named(reference)!r} {what}: refused",
        hint=way_out or "references are relative, and stay in the folder of the file that has them",
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
