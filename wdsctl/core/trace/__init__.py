"""Which samples were in which batch of a job: written by every rank while it trains, read by `wdsctl trace`."""

from __future__ import annotations

from wdsctl.core.trace.facts import SourceFacts
from wdsctl.core.trace.trace import Trace, TracedBatch, read_trace
from wdsctl.core.trace.writer import TraceWriter

__all__ = ["SourceFacts", "Trace", "TraceWriter", "TracedBatch", "read_trace"]
