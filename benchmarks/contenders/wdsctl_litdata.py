"""The package under test over LitData chunks in place: the same files as the native reader has."""

from __future__ import annotations

from benchmarks.contenders.protocol import run
from benchmarks.contenders.wdsctl import open_stream

if __name__ == "__main__":
    run(open_stream)
