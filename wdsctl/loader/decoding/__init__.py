"""From a part's bytes to what a training wants."""

from __future__ import annotations

from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.decoding.parts import as_bytes
from wdsctl.loader.decoding.threads import DecodeThreads

__all__ = ["BatchMemory", "DecodeThreads", "SampleDecoder", "as_bytes"]
