"""What torch.save wrote, read without torch and without running anything: containers, text, numbers; tensors are left.

The form is a zip archive with a pickle NAME/data.pkl beside the bytes of the tensors (torch >= 1.6). Unpickling makes
what the pickle names by module and name; here only the names below mean anything, and all of them make values that can
do nothing. It is the idea of torch.load(weights_only=True), with fewer names.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from typing import Any

from wdsctl.core.errors import InputError

LIMIT_BYTES = 64 << 20  # of the pickle: a state of a loader takes kilobytes, the names in a model megabytes

_HINT = (
    "save the loader's state in a file of its own: json.dump(loader.state_dict(), file), or "
    "torch.save({'dataloader_state_dict': loader.state_dict()}, path)"
)


class Tensor:
    """Stands for a tensor, or for something that a tensor is made of. Takes whatever the pickle gives it."""

    def __new__(cls, *given: object, **options: object) -> Tensor:  # noqa: ARG004 - nothing is kept
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Nothing is kept."""


#: Whose rebuild functions make tensors, and whose names are types and sizes of them.
_REBUILD = frozenset(
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
_OF_TENSORS = {
    "torch._utils": _REBUILD,
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


#: What is raised of a pickle that is no pickle, or does with our few names what cannot be done with them.
DAMAGE: tuple[type[Exception], ...] = (
    *(pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, MemoryError, RecursionError),
    *(struct.error, AssertionError, StopIteration),
)


class ForeignPickle(Exception):  # noqa: N818 - ends the reading; its text names what is refused
    """A pickle that needs more than containers and tensors."""


def _bytes(text: str, encoding: str) -> bytes:
    """How bytes stand in pickles of the protocol that torch uses."""
    if encoding != "latin1":
        raise ForeignPickle(f"codec {encoding!r}")
    return text.encode("latin1")


_CONTAINERS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("_codecs", "encode"): _bytes,
}


class _Reader(pickle._Unpickler):  # noqa: SLF001 - there is no other name
    """Looks up no name in any module: those that it knows are here.

    It is the one in Python: that in C makes a table as long as any number that a pickle gives to a value, and so takes
    gigabytes for a hundred bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if name in _OF_TENSORS.get(module, ()):
            return Tensor
        raise ForeignPickle(f"{module}.{name}")

    def persistent_load(self, pid: object) -> Tensor:  # noqa: ARG002 - the bytes of a tensor, which are left
        return Tensor()


def unpickled(data: bytes) -> Any:
    """What a pickle of torch.save holds, tensors left out. Runs nothing that it names.

    Raises ForeignPickle, and what a pickle raises that is none.
    """
    return _Reader(io.BytesIO(data)).load()


def is_torch_file(path: str) -> bool:
    return zipfile.is_zipfile(path)


def read_torch(path: str) -> Any:
    """What was given to torch.save. Raises InputError WDS521 where that needs more than containers and tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(_pickle_of(archive, path))
        return unpickled(data)
    except ForeignPickle as error:
        raise _refused(path, f"the file holds a {error}, which is made by code: it is not read") from error
    # NotImplementedError is zipfile's, of a way of packing that it does not know.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise _refused(path, f"the file of torch.save is damaged: {error}") from error
    except DAMAGE as error:
        raise _refused(path, f"the pickle in the file is damaged: {type(error).__name__}: {error}") from error


def _pickle_of(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    found = [info for info in archive.infolist() if info.filename.rpartition("/")[2] == "data.pkl"]
    if len(found) != 1:
        raise _refused(path, "the zip archive is none of torch.save: it has no data.pkl")
    if found[0].file_size > LIMIT_BYTES:
        raise _refused(
            path, f"its pickle has {found[0].file_size:,} bytes, which is more than a checkpoint's names take"
        )
    return found[0]


def _refused(path: str, words: str) -> InputError:
    return InputError(words, where=path, hint=_HINT, code="WDS521")
