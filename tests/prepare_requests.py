"""Requests of `prepare`, with the options of `index` as keyword arguments beside the others."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest


def prepare_request(**options: Any) -> PrepareRequest:
    own_names = {field.name for field in fields(PrepareRequest)}
    index = {name: options.pop(name) for name in list(options) if name not in own_names}
    return PrepareRequest(**options, index=IndexRequest(**index)) if index else PrepareRequest(**options)
