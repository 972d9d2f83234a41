"""`make bench`: every figure in docs/benchmarks.md, measured against the peers in one run on one machine."""

from __future__ import annotations
