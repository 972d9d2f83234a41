"""Real stores on this machine, and a proxy in front of them that injects faults."""

from __future__ import annotations
