"""`megatron.energon.errors`."""

from __future__ import annotations

from wdsctl.loader.runtime.failures import FatalSampleError, SkipSample, log_exception, reraise_exception

__all__ = ["FatalSampleError", "SkipSample", "log_exception", "reraise_exception"]
