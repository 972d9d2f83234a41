"""Lines of hashes as coreutils has them: `sha256sum` writes and reads the same.

A name with a backslash or a line break in it is written with `\\\\`, `\\n` and `\\r`, behind a backslash at the line's
beginning. https://www.gnu.org/software/coreutils/manual/html_node/cksum-output-modes.html
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

Algorithm = Literal["sha256", "sha512", "blake2b", "sha1", "md5"]

#: By the digits of a hash in hex. BLAKE2b has as many as SHA-512: it must be named, or tagged.
BY_DIGITS: dict[int, Algorithm] = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}

CHUNK = 4 << 20  # bytes hashed at a time

_PLAIN = re.compile(rb"(\\?)([0-9a-fA-F]{32,128}) [ *](.+)", re.DOTALL)
_TAGGED = re.compile(rb"(\\?)([A-Za-z0-9-]{3,12}) ?\((.+)\) ?= ([0-9a-fA-F]{32,128})", re.DOTALL)
_TAGS: dict[bytes, Algorithm] = {
    b"MD5": "md5",
    b"SHA1": "sha1",
    b"SHA256": "sha256",
    b"SHA2-256": "sha256",
    b"SHA512": "sha512",
    b"SHA2-512": "sha512",
    b"BLAKE2b": "blake2b",
}
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


class Sum(NamedTuple):
    """A line: the hash in small hex, the file's name, and the algorithm where the line tells it."""

    digest: str
    name: str
    algorithm: Algorithm | None


def line(digest: str, name: str) -> bytes:
    """One line of a file of sums, with its end."""
    escaped, is_escaped = _escaped(name)
    return b"%s%s  %s\n" % (b"\\" if is_escaped else b"", digest.encode(), escaped)


def verdict(name: str, said: str) -> bytes:
    """`name: OK`, as a check says it: escaped where the name has a newline, and else as it is."""
    escaped, is_escaped = _escaped(name) if "\n" in name else (os.fsencode(name), False)
    return b"%s%s: %s\n" % (b"\\" if is_escaped else b"", escaped, said.encode())


def parsed(lines: Iterable[bytes]) -> Iterator[Sum | None]:
    """The sums of a file, and None for a line that is none. Blank lines and comments are passed over."""
    for number, each in enumerate(lines):
        text = each.removeprefix(b"\xef\xbb\xbf") if number == 0 else each
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if text.strip() and not text.startswith(b"#"):
            yield _sum(text)


def algorithm_of(found: Sum, asked: Algorithm | None) -> Algorithm | None:
    """By the line, else as asked, else by the length of the hash; None where these do not go together."""
    by_length = BY_DIGITS.get(len(found.digest))
    said = found.algorithm or asked or by_length
    if by_length is None or said is None or len(found.digest) != 2 * new(said)().digest_size:
        return None
    return said


def new(algorithm: Algorithm) -> Callable[[], hashlib._Hash]:
    """What begins a hash of this kind."""
    return lambda: hashlib.new(algorithm, usedforsecurity=False)


def hashed(read: Callable[[int, int], bytes], size: int, algorithm: Algorithm) -> str:
    """The hash of a file of `size` bytes, in hex. Cost: 0.3 to 2 GB a second on one core."""
    digest = new(algorithm)()
    for at in range(0, size, CHUNK):
        digest.update(read(at, min(CHUNK, size - at)))
    return digest.hexdigest()


def _escaped(name: str) -> tuple[bytes, bool]:
    raw = os.fsencode(name)
    made = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return made, made != raw


def _sum(text: bytes) -> Sum | None:
    plain = _PLAIN.fullmatch(text)
    tagged = None if plain else _TAGGED.fullmatch(text)
    if plain:
        mark, digest, name, algorithm = plain[1], plain[2], plain[3], None
    elif tagged and tagged[2] in _TAGS:
        mark, digest, name, algorithm = tagged[1], tagged[4], tagged[3], _TAGS[tagged[2]]
    else:
        return None
    if mark:
        if re.fullmatch(rb"(?:[^\\]|\\[\\nr])+", name, re.DOTALL) is None:
            return None
        name = re.sub(rb"\\[\\nr]", lambda found: _ESCAPES[found[0]], name)
    return Sum(digest.decode().lower(), os.fsdecode(name), algorithm)
