"""Parts of a few hundred bytes cannot allocate gigabytes."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.decoding.decoder import SampleDecoder

SMALL = SampleDecoder(max_bytes=1 << 20)


def _torch(data: bytes, storage: bytes = bytes(4), packed: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packed) as archive:
        archive.writestr("x/data.pkl", data)
        archive.writestr("x/version", "3\n")
        archive.writestr("x/byteorder", "little")
        archive.writestr("x/data/0", storage)
    return stream.getvalue()


def _number(value: int) -> bytes:
    return b"\x8a\x08" + value.to_bytes(8, "little")


def _tensor(size: int, stride: int) -> bytes:
    storage = b"((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpu" + _number(1) + b"tQK\0"
    shape = _number(size) + b"\x85" + _number(stride) + b"\x85\x89ccollections\nOrderedDict\n)RtR."
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + storage + shape


_BYTEARRAY = b"\x80\x02cbuiltins\nbytearray\n" + _number(3 << 30) + b"\x85R."
_UNFILLED = b"\x80\x02ctorch\nTensor\n" + _number(800 << 20) + b"\x85R."


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    "data",
    [
        _BYTEARRAY,
        _UNFILLED,
        _tensor(800 << 20, 1),
        _tensor(1 << 40, 0),
        b"\x80\x02]r" + struct.pack("<I", 1 << 28) + b".",
    ],
    ids=["bytearray", "unfilled", "resized", "repeated", "memo"],
)
def test_torch_files_that_claim_gigabytes_fail_sample(data: bytes, packed: int) -> None:
    if data.startswith(b"\x80\x02]r"):  # torch allocates nothing large for it
        assert SMALL("a.pth", _torch(data, packed=packed)) == []
        return
    with pytest.raises(SampleFailed):
        SMALL("a.pth", _torch(data, packed=packed))


def test_bytearray_in_legacy_torch_file_fails_sample() -> None:
    with pytest.raises(SampleFailed):
        SMALL("a.pt", _BYTEARRAY)


def test_torch_tensors_and_views_are_decoded() -> None:
    stream = io.BytesIO()
    torch.save({"a": torch.zeros(3).expand(4, 3), "b": [torch.ones(2), {1}], "c": torch.eye(2).to_sparse()}, stream)

    value = SMALL("a.pth", stream.getvalue())

    assert value["a"].shape == (4, 3)
    assert value["b"][0].tolist() == [1, 1]


def _npy(shape: str, dtype: str = "<f4") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(64)


@pytest.mark.parametrize(
    "data",
    [
        *(_npy("(1000000000000,)"), _npy("(4000000000,)"), _npy("(-5,)"), _npy("(9" + "9" * 400 + ",)")),
        *(_npy("(1000,)", "|V999999999"), _npy("(" * 500 + ")" * 500), _npy("(2, 0, 9223372036854775807, 3)")),
        b"\x93NUMPY\2\0" + struct.pack("<I", 0xFFFFFFF0) + b"{",
    ],
)
def test_arrays_that_claim_terabytes_fail_sample(data: bytes) -> None:
    with pytest.raises(SampleFailed):
        SMALL("a.npy", data)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", data)
    with pytest.raises(SampleFailed):
        SMALL("a.npz", packed.getvalue())


def test_npz_that_unpacks_over_limit_fails_sample() -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, a=np.zeros(1 << 18))

    with pytest.raises(SampleFailed, match="unpacks to"):
        SMALL("a.npz", packed.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd" + struct.pack(">I", 0xFFFFFFFF),
        b"\xdf" + struct.pack(">I", 0xFFFFFFFF),
        b"\xc6" + struct.pack(">I", 0xFFFFFFFF),
        b"\xdb" + struct.pack(">I", 0xFFFFFFFF),
        b"\xc9" + struct.pack(">I", 0xFFFFFFFF) + b"\1",
        b"\x91" * 100_000,
        (b"\xdd" + struct.pack(">I", 100_000)) * 20_000,
    ],
)
def test_msgpack_that_claims_gigabytes_fails_sample(data: bytes) -> None:
    pytest.importorskip("msgpack")
    with pytest.raises(SampleFailed):
        SMALL("a.msgpack", data)


@pytest.mark.parametrize("data", [b"[" * 500_000, b'{"a":' * 200_000, b"9" * 100_000])
@pytest.mark.parametrize("part", ["json", "jsonl"])
def test_deeply_nested_or_huge_json_fails_sample(part: str, data: bytes) -> None:
    with pytest.raises(SampleFailed):
        SMALL(f"a.{part}", data)


def test_cls_with_million_digits_fails_sample() -> None:
    with pytest.raises(SampleFailed):
        SMALL("cls", b"9" * 1_000_000)


def test_plain_pickle_in_pt_part_fails_sample() -> None:
    with pytest.raises(SampleFailed):
        SMALL("a.pt", pickle.dumps([print], 2))
