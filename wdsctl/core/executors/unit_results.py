"""Units and results of array jobs in files: which functions run as units, and how their results are stored.

A unit is named after everything its result depends on. The function of a unit comes from the table below: a job
folder chooses one of them, and cannot name any other code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from json import dumps
from types import GenericAlias
from typing import Any, NamedTuple, get_type_hints

from wdsctl.core.executors.typed_values import decode_typed, encode_typed
from wdsctl.core.files import BytesLike
from wdsctl.core.job_results import EncodedResult, ResultFolder

#: Function of units -> function of its folder of results; empty if the command keeps no results of units.
UNIT_FUNCTIONS: Mapping[str, str] = {
    "wdsctl.core.shards.scan_unit:run_scan_unit": "scan_results",
    "wdsctl.core.index.media_unit:run_media_unit": "shard_results",
    "wdsctl.core.index.media_unit:probe_files": "files_results",
    "wdsctl.core.columns.compute:compute_values": "",
    "wdsctl.core.split.values:read_value_hashes": "value_results",
    "wdsctl.core.split.leak_hashes:run_hash_unit": "",
    "wdsctl.core.shards.write_job:run_shard_job": "",
    "wdsctl.core.convert.unit:write_unit": "",
    "wdsctl.core.repair.unit:repair_shard": "repair_results",
    "wdsctl.core.validate.unit:check_shard": "",
}


class UnitTypes(NamedTuple):
    """The declared types of a function of units."""

    arguments: tuple[Any, ...]
    unit: Any
    result: Any


@cache
def unit_types(function: str) -> UnitTypes:
    hints = get_type_hints(load_unit_function(function))
    result = hints.pop("return")
    *arguments, unit = hints.values()
    return UnitTypes(tuple(arguments), unit, result)


@cache
def load_unit_function(function: str) -> Callable[..., Any]:
    """Return a function of `UNIT_FUNCTIONS`. Raises KeyError for any other."""
    if function not in UNIT_FUNCTIONS:
        raise KeyError(function)
    module, _, name = function.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), name)
    return loaded


@dataclass(frozen=True, slots=True)
class UnitFunction:
    """A function of units with its leading arguments. `keeps_results`: its command has a folder of results."""

    function: str
    arguments: tuple[Any, ...] = ()
    keeps_results: bool = False

    def bind(self) -> Callable[[Any], Any]:
        function = load_unit_function(self.function)
        return partial(function, *self.arguments) if self.arguments else function

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]

    def encode_arguments(self) -> EncodedResult:
        pieces: list[BytesLike] = []
        kinds = unit_types(self.function).arguments
        return {
            "arguments": [encode_typed(each, kind, pieces) for each, kind in zip(self.arguments, kinds, strict=True)]
        }, pieces

    def decode_arguments(self, facts: Mapping[str, Any], data: memoryview) -> UnitFunction:
        kinds = unit_types(self.function).arguments
        return replace(self, arguments=decode_typed(facts["arguments"], GenericAlias(tuple, kinds), data))

    def encode_unit(self, unit: Any) -> EncodedResult:
        pieces: list[BytesLike] = []
        return {"unit": encode_typed(unit, unit_types(self.function).unit, pieces)}, pieces

    def decode_unit(self, facts: Mapping[str, Any], data: memoryview) -> Any:
        return decode_typed(facts["unit"], unit_types(self.function).unit, data)

    def results(self, folder: str) -> ResultFolder[Any, Any]:
        """Return the folder of results: that of the command, or one that stores any result by its type."""
        if not self.keeps_results:
            return self.typed_results(folder)
        factory = getattr(import_module(self.module), UNIT_FUNCTIONS[self.function])
        folder_of_command: ResultFolder[Any, Any] = factory(folder)
        return folder_of_command

    def typed_results(self, folder: str) -> ResultFolder[Any, Any]:
        name = self.results("").name if self.keeps_results else partial(_name_unit, self.function, self._digest())
        return ResultFolder(
            folder, name, partial(_encode_result, self.function), partial(_decode_result, self.function)
        )

    def _digest(self) -> bytes:
        return _digest(*self.encode_arguments())


def find_unit_function(fn: Callable[[Any], Any], *, keeps_results: bool) -> UnitFunction | None:
    """Return the function of a stage as a `UnitFunction`; None if it cannot run in other processes' place."""
    arguments: tuple[Any, ...] = ()
    if isinstance(fn, partial):
        arguments, fn = fn.args, fn.func
    name = f"{fn.__module__}:{fn.__qualname__}"
    return UnitFunction(name, arguments, keeps_results) if name in UNIT_FUNCTIONS else None


def _digest(facts: Mapping[str, Any], pieces: Sequence[BytesLike]) -> bytes:
    digest = blake2b(dumps(facts, separators=(",", ":")).encode(), digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _name_unit(function: str, arguments: bytes, unit: Any) -> str:
    encoded = _digest(*UnitFunction(function).encode_unit(unit))
    return blake2b(function.encode() + b"\0" + arguments + encoded, digest_size=16).hexdigest()


def _encode_result(function: str, _unit: Any, result: Any) -> EncodedResult:
    pieces: list[BytesLike] = []
    return {"result": encode_typed(result, unit_types(function).result, pieces)}, pieces


def _decode_result(function: str, _unit: Any, facts: Mapping[str, Any], data: memoryview) -> Any:
    return decode_typed(facts["result"], unit_types(function).result, data)
