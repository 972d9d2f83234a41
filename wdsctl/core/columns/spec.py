"""What a column computes, as users write it: `MODULE:FUNCTION`, or one of five built-in functions.

size:PART             bytes of a part; nothing is read                              0 if a sample lacks the part
chars:PART            characters of a part that is UTF-8                            0 where a sample lacks the part
json:PART:FIELD.PATH  a number in a JSON part, or the length of a string or list    an error if it is missing
int:PART:FIELD.PATH   a number in a JSON part, or a string that is one              an error if it is missing
media:PART:NUMBER     a fact of a medium: width, duration_ms                        0 where a sample has no such fact
media:PART,PART:NUMBER   the same, of the first part that has it
MODULE:FUNCTION       what a Python function returns; FUNCTION may be dotted

A digest of the source of a Python function shows when it changes, and the column has to be computed again.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import open_named
from wdsctl.core.samples.fields import did_you_mean

SpecKind = Literal["size", "chars", "json", "int", "media", "python"]
SampleParts = dict[str, Any]  # `__key__` -> str, part name -> bytes

SPEC_HINT = (
    "write size:PART, chars:PART, json:PART:FIELD.PATH, int:PART:FIELD.PATH, media:PART:NUMBER or MODULE:FUNCTION"
)

#: NUMBER of `media:PART:NUMBER` -> the expression over the columns of `v_media` that computes it, an integer.
MEDIA_NUMBERS = {
    "width": "display_width",
    "height": "display_height",
    "pixels": "CAST(width * height AS INTEGER)",
    "aspect_milli": "CAST(display_width * 1000 / display_height AS INTEGER)",
    "duration_ms": "CAST(round(seconds * 1000) AS INTEGER)",
    "frames": "frames",
    "channels": "audio_channels",
    "rate": "audio_rate",
    "samples": "audio_samples",
}

#: Of at most 18 digits: columns store 64 bits.
_WHOLE_NUMBER = re.compile(r"\s*[0-9]{1,18}\s*")

_MAX_READ_SOURCE_BYTES = 16 << 20  # of a file that data names

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """`part_or_module`: the part (for `media`, one or several: "wav,flac"), or the module. `path`: the rest."""

    text: str
    kind: SpecKind
    part_or_module: str
    path: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        return self.kind != "python"

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that a built-in function reads; empty for Python functions."""
        if self.kind == "media":
            return tuple(self.part_or_module.split(","))
        return (self.part_or_module,) if self.is_built_in else ()

    @property
    def reads_shards(self) -> bool:
        """Whether the shards must be read."""
        return self.kind not in ("size", "media")


def parse_column_spec(text: str) -> ColumnSpec:
    """Raises UsageError WDS312."""
    word, _, rest = text.partition(":")
    if word in ("size", "chars") and rest:
        return ColumnSpec(text, "size" if word == "size" else "chars", rest)
    if word in ("json", "int") and rest:
        part, _, path = rest.partition(":")
        if part and path and all(path.split(".")):
            return ColumnSpec(text, "json" if word == "json" else "int", part, tuple(path.split(".")))
    elif word == "media" and ":" in rest:
        part, _, number = rest.rpartition(":")
        if all(part.split(",")) and number in MEDIA_NUMBERS:
            return ColumnSpec(text, "media", part, (number,))
        raise UsageError(
            f"{text!r} does not name a media fact",
            hint=f"write media:PART:NUMBER, where NUMBER is one of {', '.join(MEDIA_NUMBERS)}",
            code="WDS312",
        )
    elif _DOTTED.fullmatch(word) and _DOTTED.fullmatch(rest):
        return ColumnSpec(text, "python", word, tuple(rest.split(".")))
    raise UsageError(f"{text!r} does not define a column", hint=SPEC_HINT, code="WDS312")


def check_spec_part(spec: ColumnSpec, parts: Iterable[str]) -> None:
    """Raise UsageError WDS312 if a built-in function is to read a part that no sample has."""
    known = list(parts)
    for part in spec.parts:
        if part not in known:
            raise UsageError(
                f"no sample has a part {part!r}",
                where=spec.text,
                hint=did_you_mean(part, known) or f"the parts are {', '.join(known) or 'none'}",
                code="WDS312",
            )


@dataclass(frozen=True, slots=True)
class CharCounter:
    part: str

    def __call__(self, sample: SampleParts) -> int:
        return len(str(sample.get(self.part, b""), "utf-8").removeprefix("\ufeff"))


@dataclass(frozen=True, slots=True)
class JsonNumberReader:
    """`is_int`: a string is a number in text, as in the cells of a CSV; else the value is its length."""

    part: str
    path: tuple[str, ...]
    is_int: bool = False

    def __call__(self, sample: SampleParts) -> int:
        """Compute the value of a sample. Raises ValueError with the reason if it has no such number, string or list."""
        value = self.find(sample)
        if self.is_int and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
            return int(value)
        if isinstance(value, str | list) and not self.is_int:
            return len(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        found = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)
        accepted = "a whole number" if self.is_int else "a whole number, a string or a list"
        raise ValueError(f"{'.'.join(self.path)!r} is {found}, not {accepted}")

    def has_number_in_text(self, sample: SampleParts) -> bool:
        """Whether the value is the length of a string that is a whole number. Raises ValueError as the call does."""
        value = self.find(sample)
        return not self.is_int and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) is not None

    def find(self, sample: SampleParts) -> Any:
        """The JSON value at the path. Raises ValueError if there is none."""
        if self.part not in sample:
            raise ValueError(f"the sample has no part {self.part!r}")
        value = read_json(sample[self.part])
        for i, step in enumerate(self.path):
            value = _step_into(value, step, ".".join(self.path[: i + 1]))
        return value


def _step_into(value: Any, step: str, path: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    raise ValueError(f"{path!r} does not exist in the JSON")


#: The attribute by which a function declares the parts that it needs: `tokens.parts = ("txt",)`. Others are not read.
PARTS_ATTRIBUTE = "parts"


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    call: Callable[[SampleParts], Any]
    parts: frozenset[str] | None  # the parts that it receives; None for all


@contextmanager
def import_from(folder: str) -> Iterator[None]:
    """Within the block, search modules in `folder` first, as `python -m` does; also in worker processes."""
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def load_column_function(spec: ColumnSpec) -> ColumnFunction:
    """Raise UsageError WDS312 if there is no such module or function, with the name that was probably meant."""
    if spec.kind == "chars":
        return ColumnFunction(CharCounter(spec.part_or_module), frozenset({spec.part_or_module}))
    if spec.kind in ("json", "int"):
        reader = JsonNumberReader(spec.part_or_module, spec.path, is_int=spec.kind == "int")
        return ColumnFunction(reader, frozenset({spec.part_or_module}))
    found = import_callable(spec)
    return ColumnFunction(found, _declared_parts(spec, found))


def import_callable(spec: ColumnSpec) -> Callable[..., Any]:
    """The function or class `module:name`, imported. Raises UsageError WDS312."""
    found: Any = _module(spec)
    for i, name in enumerate(spec.path):
        if not hasattr(found, name):
            owner = ".".join((spec.part_or_module, *spec.path[:i]))
            near = did_you_mean(name, dir(found))
            raise _spec_error(spec, f"{owner} has no {name!r}", near or "write the name of a function in the module")
        found = getattr(found, name)
    if not callable(found):
        raise _spec_error(
            spec,
            f"{spec.text} is {type(found).__name__}, not a function",
            "write the name of a function that takes a sample",
        )
    call: Callable[..., Any] = found
    return call


def digest_source(spec: ColumnSpec) -> str:
    """A digest of the source of a function: the files of its module, and of the module that defines it. 16 hex digits.

    Empty for compiled modules, and for built-in functions. Does not cover functions of other modules that it calls, and
    files that it reads.
    """
    if spec.is_built_in:
        return ""
    digest, paths = blake2b(digest_size=8), _files(spec)
    for path in paths:
        with open_named(path) as file:
            digest.update(read_whole(file, path) + b"\0")
    return digest.hexdigest() if paths else ""


def find_source_digest(spec: ColumnSpec) -> str | None:
    """As `digest_source`, but without running code; None if that is impossible.

    It is known for a function that is defined once, after an empty line and so without a decorator, at the top level of
    a module in the current folder or on Python's path. A column may name any such module: of a file that cannot be
    read, or has more than 16 MiB, the digest is not known.
    """
    path = _find_module_file(spec.part_or_module) if spec.kind == "python" and len(spec.path) == 1 else None
    if path is None:
        return None
    try:
        with open_named(path) as file:
            data = file.read(_MAX_READ_SOURCE_BYTES + 1)
    except OSError:
        return None
    if len(data) > _MAX_READ_SOURCE_BYTES:
        return None
    name = re.escape(spec.path[0].encode())
    definitions = re.findall(rb"(?:\A|\n[ \t]*(?:#.*)?\r?\n)def " + name + rb"\b", data)
    bindings = re.findall(rb"^[ \t]*(?:def |class |(?=" + name + rb"\s*[:=]))" + name + rb"\b", data, re.MULTILINE)
    if len(definitions) != 1 or len(bindings) != 1:
        return None
    return blake2b(data + b"\0", digest_size=8).hexdigest()


def _find_module_file(name: str) -> str | None:
    """The file of a module that would be imported, the current folder first. Imports nothing."""
    importlib.invalidate_caches()
    folders: Sequence[str] = [os.getcwd(), *sys.path]
    steps = name.split(".")
    for i, step in enumerate(steps, 1):
        # Without its parents: a namespace package of a dotted name must have them in sys.modules.
        found = PathFinder.find_spec(step, folders)
        if found is None or (i < len(steps) and found.submodule_search_locations is None):
            return None
        folders = list(found.submodule_search_locations or ())
        path = found.origin
    return path if path and path.endswith(".py") and os.path.isfile(path) else None


def _files(spec: ColumnSpec) -> list[str]:
    found = load_column_function(spec).call
    plain = inspect.unwrap(found)
    defined = sys.modules.get(getattr(plain, "__module__", None) or type(plain).__module__)
    modules = [sys.modules.get(spec.part_or_module), defined]
    paths = [getattr(module, "__file__", None) for module in modules if isinstance(module, ModuleType)]
    return list(dict.fromkeys(path for path in paths if path and path.endswith(".py") and os.path.isfile(path)))


def _module(spec: ColumnSpec) -> ModuleType:
    try:
        # stdout is for data alone: text that modules print on import goes to stderr.
        with redirect_stdout(sys.stderr):
            return importlib.import_module(spec.part_or_module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if spec.part_or_module != missing and not spec.part_or_module.startswith(f"{missing}."):
            raise _import_error(spec, error) from error
        above = missing.rpartition(".")[0]
        near = did_you_mean(missing.rpartition(".")[2], _modules(above))
        hint = near or "install the module or add its folder to PYTHONPATH; --column also searches the current folder"
        raise _spec_error(spec, f"no module {missing!r} was found", hint) from error
    except Exception as error:  # a user's module may raise anything
        raise _import_error(spec, error) from error


def _modules(above: str) -> list[str]:
    """The names of the modules of a package, or of all top-level modules."""
    paths = getattr(sys.modules.get(above), "__path__", None) if above else None
    return [module.name for module in pkgutil.iter_modules(paths)] if paths or not above else []


def _declared_parts(spec: ColumnSpec, function: Any) -> frozenset[str] | None:
    parts = getattr(function, PARTS_ATTRIBUTE, None)
    if parts is None:
        return None
    names = [parts] if isinstance(parts, str) else list(parts) if isinstance(parts, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        hint = f'such as `{spec.path[-1]}.{PARTS_ATTRIBUTE} = ("txt",)`'
        raise _spec_error(spec, f"the function's `{PARTS_ATTRIBUTE}` is {parts!r}, expected names of parts", hint)
    return frozenset(names)


def _import_error(spec: ColumnSpec, error: Exception) -> UsageError:
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = f'run `python -c "import {spec.part_or_module}"` to see the whole error'
    return _spec_error(spec, f"the module {spec.part_or_module!r} cannot be imported: {message}", hint)


def _spec_error(spec: ColumnSpec, message: str, hint: str) -> UsageError:
    return UsageError(message, where=spec.text, hint=hint, code="WDS312")
