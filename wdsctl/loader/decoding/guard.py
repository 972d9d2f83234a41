"""Errors of decoders as failures of the sample, and the user's own decoders: lookup by part, names in fingerprints.

Errors name the part; the caller adds dataset, shard and key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wdsctl.core.errors import SampleFailed, UsageError, WdsctlError
from wdsctl.loader.decoding.limits import check_part_size
from wdsctl.loader.decoding.parts import ErrorTypes, last_extension
from wdsctl.loader.runtime.failures import FATAL_ERRORS, FatalSampleError
from wdsctl.loader.runtime.identity import qualified_name

DecodeFunction = Callable[[bytes], Any]

#: Functions by part or content type; or a function that is called once per part name, and returns one or None.
CustomDecoders = Mapping[str, DecodeFunction] | Callable[[str], DecodeFunction | None]


def check_decoders(decoders: CustomDecoders | None) -> None:
    """Raise UsageError for a decoder that is not callable, or a name that is not a string."""
    value: Any = decoders  # callers without a type checker may pass anything
    if isinstance(value, Mapping):
        invalid = [str(name) for name, function in value.items() if not (isinstance(name, str) and callable(function))]
    else:
        invalid = [] if value is None or callable(value) else [repr(value)]
    if invalid:
        raise UsageError(
            f"decoders={', '.join(invalid)}: not a function",
            hint="pass functions by part or content type: decoders={'seg.png': read_mask, 'audio': read_sound}",
        )


def find_by_name(decoders: CustomDecoders | None, part: str) -> DecodeFunction | None:
    """The decoder for the part's name, or else for its last extension. Case does not matter."""
    if decoders is None:
        return None
    if not isinstance(decoders, Mapping):
        return decoders(part)
    functions = {name.lower(): function for name, function in decoders.items()}
    return functions.get(part.lower()) or functions.get(last_extension(part))


def find_by_content(decoders: CustomDecoders | None, content: str) -> DecodeFunction | None:
    """The decoder for a content type: image, video, audio, text, json or array."""
    return decoders.get(content) if isinstance(decoders, Mapping) else None


def custom_decoders_config(decoders: CustomDecoders | None) -> Any:
    """The functions by name, for the fingerprint of a plan."""
    if not isinstance(decoders, Mapping):
        return None if decoders is None else qualified_name(decoders)
    return {name: qualified_name(decoders[name]) for name in sorted(decoders)}


_REPAIR_HINT = "repair the file, or get its bytes undecoded: SampleDecoder(skip=({part!r},))"


def guard_decode(part: str, decode: DecodeFunction, errors: ErrorTypes, max_bytes: int) -> DecodeFunction:
    """`decode` with these errors raised as SampleFailed, and a size limit."""

    def decode_part(data: bytes) -> Any:
        try:
            if len(data) > max_bytes:
                check_part_size(data, max_bytes)
            return decode(data)
        except WdsctlError as error:
            raise type(error)(error.message, hint=error.hint, where=f"part '{part}'", code=error.code) from error
        except errors as error:
            raise _decode_error(part, _first_line(error)) from error

    return decode_part


def guard_custom_decode(part: str, decode: DecodeFunction, max_bytes: int) -> DecodeFunction:
    """The same for a function of the user's, which may raise anything. Errors of the program end the run."""

    def decode_part(data: bytes) -> Any:
        try:
            check_part_size(data, max_bytes)
            return decode(data)
        except WdsctlError as error:
            raise type(error)(error.message, hint=error.hint, where=f"part '{part}'", code=error.code) from error
        except FATAL_ERRORS as error:
            raise FatalSampleError(
                f"cannot decode part '{part}': {type(error).__name__}: {_first_line(error)}",
                where=f"part '{part}'",
                hint="fix the decoder: it would fail for every sample",
            ) from error
        except Exception as error:  # whatever the user's decoder or a library raised fails the sample
            raise _decode_error(part, f"{type(error).__name__}: {_first_line(error)}") from error

    return decode_part


def _decode_error(part: str, reason: str) -> SampleFailed:
    return SampleFailed(
        f"cannot decode part '{part}': {reason}", where=f"part '{part}'", hint=_REPAIR_HINT.format(part=part)
    )


def _first_line(error: Exception) -> str:
    """The first line of the message: torch and numpy add long explanations."""
    return (str(error) or type(error).__name__).splitlines()[0]
