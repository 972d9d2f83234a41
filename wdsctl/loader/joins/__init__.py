"""Joins: the samples of several datasets that have one key become one sample. `plan` imports it."""

from __future__ import annotations

from wdsctl.loader.joins.source import EagerFunctions, JoinContext, open_joined_source

__all__ = ["EagerFunctions", "JoinContext", "open_joined_source"]
