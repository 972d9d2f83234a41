"""What a decoder raises becomes a failure of the sample that names the part. The caller adds dataset, shard and key."""

from __future__ import annotations

from typing import Any

from wdsctl.core.errors import SampleFailed, WdsctlError
from wdsctl.loader.decoding.custom import Decode
from wdsctl.loader.decoding.limits import refuse_size
from wdsctl.loader.decoding.parts import Errors
from wdsctl.loader.failures import FATAL, FatalSampleError

_HINT = "repair or remove the file, or take the bytes as they are: SampleDecoder(skip=({part!r},))"


def guarded(part: str, decode: Decode, errors: Errors, max_bytes: int) -> Decode:
    """`decode`, with these errors as SampleFailed, and refusing what has too many bytes."""

    def decode_part(data: bytes) -> Any:
        try:
            if len(data) > max_bytes:
                refuse_size(data, max_bytes)
            return decode(data)
        except WdsctlError as error:
            raise type(error)(error.message, hint=error.hint, where=f"part '{part}'", code=error.code) from error
        except errors as error:
            raise _failed(part, _in_words(error)) from error

    return decode_part


def guarded_custom(part: str, decode: Decode, max_bytes: int) -> Decode:
    """The same for a function of the user's, which may raise anything; what is wrong with the program ends the run."""

    def decode_part(data: bytes) -> Any:
        try:
            refuse_size(data, max_bytes)
            return decode(data)
        except WdsctlError as error:
            raise type(error)(error.message, hint=error.hint, where=f"part '{part}'", code=error.code) from error
        except FATAL as error:
            raise FatalSampleError(
                f"part '{part}' cannot be decoded: {type(error).__name__}: {_in_words(error)}",
                where=f"part '{part}'",
                hint="look at the decoder: no other sample will do better",
            ) from error
        except Exception as error:
            raise _failed(part, f"{type(error).__name__}: {_in_words(error)}") from error

    return decode_part


def _failed(part: str, words: str) -> SampleFailed:
    return SampleFailed(
        f"part '{part}' cannot be decoded: {words}", where=f"part '{part}'", hint=_HINT.format(part=part)
    )


def _in_words(error: Exception) -> str:
    """The first line: torch and numpy explain at length."""
    return (str(error) or type(error).__name__).splitlines()[0]
