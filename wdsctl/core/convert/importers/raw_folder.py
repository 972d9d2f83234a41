"""A raw folder: files that share a name, up to where keys end, are the parts of one sample, as `prepare` has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import cast

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.samples import Sample
from wdsctl.core.convert.rows.source import SampleSource
from wdsctl.core.convert.source import LargePart, Options, Recognised, Source
from wdsctl.core.counted import counted
from wdsctl.core.errors import WdsctlError
from wdsctl.core.findings import Finding
from wdsctl.core.formats.folder import Listing, OnMissing, list_folder
from wdsctl.core.naming import KEY_RULES, as_rule, shard_key, split_name

_LOOKED_AT = 1000  # names


class RawFolder:
    """`-O parts=jpg,txt` says what a complete sample has, `on-missing=skip|keep` what to do with others,
    `key-until=RULE` where keys end.
    """

    name = "folder"
    about = "a folder of files; those that share a name are the parts of one sample"

    def recognise(self, path: str) -> Recognised | None:
        if not os.path.isdir(path):
            return None
        for name in islice(_names(path), _LOOKED_AT):
            if split_name(name) and not name.endswith((".tar", ".tgz", ".tar.gz")):
                return Recognised(0.2, f"has files such as {name}")
        return None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ("parts", "on-missing", "key-until"))
        on_missing = cast("OnMissing", given.one_of(self.name, options, "on-missing", ("error", "skip", "keep")))
        try:
            rule = as_rule(given.one_of(self.name, options, "key-until", KEY_RULES)) if "key-until" in options else None
            listing = list_folder(path, parts=given.names(options, "parts"), on_missing=on_missing, key_until=rule)
        except WdsctlError as error:
            # Here the same options are of the form.
            error.hint = error.hint.replace("--on-missing ", "-O on-missing=").replace("--parts", "-O parts=NAMES")
            error.hint = error.hint.replace("--key-until ", "-O key-until=")
            raise
        return SampleSource(_Listed(path, listing), problems=_told(listing, on_missing))


IMPORTER = RawFolder()


def _told(listing: Listing, on_missing: OnMissing) -> Iterator[Finding]:
    """What the user said may be missing, with how much of it there was."""
    said = (
        (listing.incomplete, "incomplete sample", ""),
        (listing.strays, "stray file", ""),
        (listing.unreadable, "unreadable file or folder", "unreadable files or folders"),
    )
    count = sum(n for n, *_ in said)
    if count:
        what = ", ".join(counted(n, noun, plural) for n, noun, plural in said if n)
        such = f" (such as {listing.examples[0]})" if listing.examples else ""
        done = "left out" if on_missing == "skip" else "only what there is was taken"
        yield Finding(code="WDS201", severity="warning", message=f"{what}{such}: {done}", count=count)


class _Listed:
    def __init__(self, root: str, listing: Listing) -> None:
        self._root = root
        self._listing = listing

    def samples(self, start: int) -> Iterator[Sample]:
        for key, parts in islice(self._listing.samples, start, None):
            path = os.path.join(self._root, key)
            yield Sample(
                shard_key(key), tuple(LargePart(name, f"{path}.{name}", 0, size, self._root) for name, size, _ in parts)
            )

    def mark(self) -> bytes:
        """Of all files: names, sizes and times."""
        digest = blake2b(digest_size=16)
        for sample in self._listing.samples:
            digest.update(repr(sample).encode("utf-8", "surrogateescape"))
        return digest.digest()

    def close(self) -> None:
        """Nothing is open."""


def _names(folder: str) -> Iterator[str]:
    """Names of files in a folder and below it. What cannot be listed is passed over: this only looks."""
    for _, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from files
