"""One script a contender, all with one protocol (protocol.py), each run in a process of its own."""

from __future__ import annotations
