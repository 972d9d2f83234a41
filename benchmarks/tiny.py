"""Shards of tiny samples, built whole in numpy: tarfile gives one header a kind, the rest is array arithmetic.

A sample is two members, `000123456.jpg` (40 to 63 bytes) and `000123456.txt` (20 to 43 bytes); both fit one block.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_BLOCK = 512
_RECORD = 20 * _BLOCK
_KEY_DIGITS = 9
_PAYLOAD = 64
#: Shortest payload in bytes by extension; the longest is 23 more.
_SHORTEST = {"jpg": 40, "txt": 20}
_PRINTABLE = (32, 127)
_ANY_BYTE = (0, 256)


def write_tiny_shard(path: Path, first: int, samples: int, mtime: float) -> None:
    """One shard with the samples first, first + 1, ...

    A float `mtime` puts a PAX header before every member, as webdataset's own writer does; an int gives plain ustar.
    """
    random = np.random.default_rng([20_260_101, first])
    keys = _digits(np.arange(first, first + samples), base=10, width=_KEY_DIGITS)
    members = [_members(extension, keys, mtime, random) for extension in ("jpg", "txt")]
    body = np.concatenate(members, axis=1)
    end = 2 * _BLOCK
    padding = -(body.size + end) % _RECORD
    path.write_bytes(body.tobytes() + bytes(end + padding))


def _members(extension: str, keys: Bytes, mtime: float, random: np.random.Generator) -> Bytes:
    """uint8 (samples, bytes of one member): headers, payload, padding."""
    template = np.frombuffer(_template(extension, mtime), dtype=np.uint8)
    member = np.zeros((len(keys), len(template) + _BLOCK), dtype=np.uint8)
    member[:, : len(template)] = template
    sizes = random.integers(_SHORTEST[extension], _SHORTEST[extension] + 24, len(keys))
    header = member[:, len(template) - _BLOCK : len(template)]
    header[:, :_KEY_DIGITS] = keys
    header[:, 124:135] = _digits(sizes, base=8, width=11)
    header[:, 148:156] = ord(" ")
    header[:, 148:154] = _digits(header.sum(axis=1, dtype=np.int64), base=8, width=6)
    header[:, 154] = 0
    low, high = _PRINTABLE if extension == "txt" else _ANY_BYTE
    payload = random.integers(low, high, (len(keys), _PAYLOAD), dtype=np.uint8)
    payload[np.arange(_PAYLOAD) >= sizes[:, None]] = 0
    member[:, len(template) : len(template) + _PAYLOAD] = payload
    return member


def _template(extension: str, mtime: float) -> bytes:
    """What tarfile writes before a member's payload: 512 bytes, or 1536 with a PAX header."""
    info = tarfile.TarInfo("0" * _KEY_DIGITS + "." + extension)
    info.size, info.mode = _SHORTEST[extension], 0o444
    info.uname = info.gname = "bigdata"
    info.mtime = mtime
    return info.tobuf(tarfile.PAX_FORMAT)


def _digits(numbers: npt.NDArray[np.int64], *, base: int, width: int) -> Bytes:
    """ASCII digits, uint8 (len(numbers), width), zero-padded on the left."""
    powers = base ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % base + ord("0")).astype(np.uint8)
