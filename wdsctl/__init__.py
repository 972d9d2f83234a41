"""Prepare and manage WebDataset datasets, and feed training from them, exactly.

    import wdsctl

    wdsctl.prepare("photos", "shards", split="8,1,1")
    dataset = wdsctl.Dataset("shards", split="train")
    dataset[0], dataset["animal/0001"], dataset[10:20]

`prepare`, `index`, `split`, `inspect`, `validate`, `convert` and `export` are the commands as functions, `Dataset`
reads single samples, `Writer` and `from_iterable` write the samples of a program as a dataset, `wdsctl.loader` feeds
training. Names are imported on first use: `import wdsctl` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wdsctl.core.version import VERSION as __version__  # noqa: N811 - the name that tools look for

if TYPE_CHECKING:
    from wdsctl import loader
    from wdsctl.api import convert, export, index, inspect, prepare, split, validate
    from wdsctl.core.errors import WdsctlError
    from wdsctl.core.writer.writer import Writer, from_iterable
    from wdsctl.dataset import Dataset

_MODULE_OF = {
    **dict.fromkeys(("convert", "export", "index", "inspect", "prepare", "split", "validate"), "wdsctl.api"),
    "Dataset": "wdsctl.dataset",
    "WdsctlError": "wdsctl.core.errors",
    **dict.fromkeys(("Writer", "from_iterable"), "wdsctl.core.writer.writer"),
}

__all__ = [
    "Dataset",
    "WdsctlError",
    "Writer",
    "__version__",
    "convert",
    "export",
    "from_iterable",
    "index",
    "inspect",
    "loader",
    "prepare",
    "split",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name == "loader":
        return import_module("wdsctl.loader")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'wdsctl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
