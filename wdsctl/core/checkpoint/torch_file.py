"""Reads and writes files of `torch.save` without torch and without running code: containers, text and numbers.

Such a file is a zip archive with a pickle NAME/data.pkl beside the bytes of the tensors (torch >= 1.6). A pickle may
name classes and functions to call. Only the names in `_CONTAINERS` and `_TENSOR_GLOBALS` are known here, and all of
them make values that do nothing. `torch.load(weights_only=True)` follows the same idea with more names, and 40 bytes
make it allocate gigabytes: see docs/decisions/0035-files-of-torch-save-are-read-without-torch.md.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from typing import Any, BinaryIO

from wdsctl.core.errors import InputError
from wdsctl.core.file_limits import check_zip_directory

MAX_PICKLE_BYTES = 64 << 20  # of the pickle: a loader's state takes kilobytes, the names in a model megabytes

_HINT = (
    "save the loader's state in a separate file: json.dump(loader.state_dict(), file), or "
    "torch.save({'dataloader_state_dict': loader.state_dict()}, path)"
)


class TensorStub:
    """A placeholder for a tensor, its storage, type or size. Accepts all arguments and keeps none."""

    def __new__(cls, *args: object, **kwargs: object) -> TensorStub:  # noqa: ARG004 - nothing is kept
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Drop the state."""


_REBUILD_FUNCTIONS = frozenset(
    {
        "_rebuild_tensor",
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
        "_rebuild_parameter",
        "_rebuild_parameter_with_state",
        "_rebuild_sparse_tensor",
        "_rebuild_meta_tensor_no_storage",
        "_rebuild_wrapper_subclass",
        "_rebuild_device_tensor_from_numpy",
        "_rebuild_device_tensor_from_cpu_tensor",
        "_rebuild_nested_tensor",
        "_rebuild_qtensor",
    }
)
#: module -> names that a pickle may use for tensors. All of them become `TensorStub`.
_TENSOR_GLOBALS = {
    "torch._utils": _REBUILD_FUNCTIONS,
    "torch._tensor": frozenset({"_rebuild_from_type_v2"}),
    "torch": frozenset(
        {"Size", "Tensor", "device", "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
        | {"float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128"}
        | {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
        | {"qint8", "quint8", "qint32", "strided", "sparse_coo", "sparse_csr"}
        | {f"{kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")}
        | {f"{kind}Storage" for kind in ("BFloat16", "ComplexFloat", "ComplexDouble", "QInt8", "QUInt8", "QInt32")}
    ),
    "torch.storage": frozenset({"UntypedStorage", "TypedStorage", "_load_from_bytes"}),
    "torch.nn.parameter": frozenset({"Parameter"}),
    "torch.serialization": frozenset({"_get_layout"}),
}


#: What `unpickle_safely` raises for a damaged pickle, and for one that misuses the names it may use.
PICKLE_ERRORS: tuple[type[Exception], ...] = (
    *(pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, MemoryError, RecursionError),
    *(struct.error, AssertionError, StopIteration, EOFError, OverflowError),
)


class UnsupportedPickle(Exception):  # noqa: N818 - not an error of the file; its text is the name that was refused
    """A pickle that needs more than containers and tensors."""


def _encode_latin1(text: str, encoding: str) -> bytes:
    """`_codecs.encode`, by which protocol 2 writes bytes; any other codec is refused."""
    if encoding != "latin1":
        raise UnsupportedPickle(f"codec {encoding!r}")
    return text.encode("latin1")


_CONTAINERS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("_codecs", "encode"): _encode_latin1,
}


class _SafeUnpickler(pickle._Unpickler):  # noqa: SLF001 - there is no other name
    """Imports nothing: it knows only the names in `_CONTAINERS` and `_TENSOR_GLOBALS`.

    The base is the unpickler written in Python. The one in C allocates its memo table by the index in the pickle, so
    that a hundred bytes can claim gigabytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if name in _TENSOR_GLOBALS.get(module, ()):
            return TensorStub
        raise UnsupportedPickle(f"{module}.{name}")

    def persistent_load(self, pid: object) -> TensorStub:  # noqa: ARG002 - a tensor's bytes, not read
        return TensorStub()


def unpickle_safely(data: bytes) -> Any:
    """The value in a pickle of `torch.save`, with a `TensorStub` for every tensor. Runs nothing that the pickle names.

    Raises UnsupportedPickle if it needs other names, and PICKLE_ERRORS if it is damaged.
    """
    return _SafeUnpickler(io.BytesIO(data)).load()


def is_torch_file(file: BinaryIO) -> bool:
    return zipfile.is_zipfile(file)


def read_torch_file(file: BinaryIO, path: str) -> Any:
    """The value that `torch.save` wrote to a file, with a `TensorStub` for every tensor.

    `path`: for errors. Raises InputError WDS521 if the file is damaged, is another zip archive, or needs more than
    containers and tensors. Reads only the pickle: time and memory do not grow with the tensors.
    """
    try:
        check_zip_directory(file, path)
        with zipfile.ZipFile(file) as archive:
            data = archive.read(_find_pickle(archive, path))
        return unpickle_safely(data)
    except UnsupportedPickle as error:
        raise _unreadable(
            path, f"cannot read the file: it contains a {error}, and loading that would run code"
        ) from error
    # zipfile raises NotImplementedError for a compression method that it does not know.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise _unreadable(path, f"the torch.save file is damaged: {error}") from error
    except PICKLE_ERRORS as error:
        raise _unreadable(
            path, f"the pickle in the torch.save file is damaged: {type(error).__name__}: {error}"
        ) from error


def has_tensors(value: Any) -> bool:
    """Whether a value that `read_torch_file` returned lacks something of the file: tensors, or what they need."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, TensorStub):
            return True
        if isinstance(each, dict | list | tuple | set) and id(each) not in seen:
            seen.add(id(each))
            waiting += [*dict.keys(each), *dict.values(each)] if isinstance(each, dict) else each
    return False


def encode_torch_file(value: Any) -> bytes:
    """The bytes of a file that `torch.load(weights_only=True)` reads: a JSON value, no tensors. The same value gives
    the same bytes."""
    records = {
        "data.pkl": pickle.dumps(value, protocol=2),
        "byteorder": b"little",
        "version": b"3\n",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), data)  # of 1980, whatever the time is
    return buffer.getvalue()


def _find_pickle(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    found = [info for info in archive.infolist() if info.filename.rpartition("/")[2] == "data.pkl"]
    if len(found) != 1:
        raise _unreadable(path, "the zip archive has no data.pkl, so torch.save did not write it")
    if found[0].file_size > MAX_PICKLE_BYTES:
        raise _unreadable(
            path, f"the pickle in the torch.save file has {found[0].file_size:,} bytes, more than {MAX_PICKLE_BYTES:,}"
        )
    return found[0]


def _unreadable(path: str, message: str) -> InputError:
    return InputError(message, where=path, hint=_HINT, code="WDS521")
