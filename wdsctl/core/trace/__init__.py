"""Traces: which samples were in which batch of a job. Every rank writes a trace file, which `wdsctl trace` reads.

`format` defines the file format, `write` and `read` its writer and reader, `samples` writes the samples of a step to
a folder. The loader and the command line import it.
"""

from __future__ import annotations

from wdsctl.core.trace.format import SourceFacts
from wdsctl.core.trace.read import Trace, TracedBatch, read_trace
from wdsctl.core.trace.write import TraceWriter

__all__ = ["SourceFacts", "Trace", "TraceWriter", "TracedBatch", "read_trace"]
