"""Joins: the samples of several datasets that have one key become one sample."""

from __future__ import annotations

from wdsctl.loader.joins.opening import AtOnce, Joined, joined_of

__all__ = ["AtOnce", "Joined", "joined_of"]
