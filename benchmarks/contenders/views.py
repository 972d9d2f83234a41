"""What a view of so many samples costs, in a process that has imported everything:

    python -m benchmarks.contenders.views --root ROOT --open [NAME]     all that a training opens before its first read
    python -m benchmarks.contenders.views --root ROOT --create "EXPR"   making a view of the samples that fit

With a NAME, `view_seconds` is what reading the view and finding it in the catalog takes, `open_seconds` the whole. The
samples that come out are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.selections import read_view_samples
from wdsctl.core.views.views import create_view, delete_view
from wdsctl.loader import DefaultTaskEncoder, get_train_dataset
from wdsctl.loader.plan.open_blend import open_blend

_VIEW = "made-by-the-benchmark"


class Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--open", nargs="?", const="")
    action.add_argument("--create")
    given = parser.parse_args()
    print(json.dumps(created(given.root, given.create) if given.create else opened(given.root, given.open)))


def opened(root: str, view: str) -> dict[str, float]:
    seconds: dict[str, float] = {}
    if view:
        begun = time.perf_counter()
        with open_dataset(root) as dataset:
            samples = sum(part.samples for part in read_view_samples(dataset, view).values())
        seconds["view_seconds"] = time.perf_counter() - begun
        if not samples:
            raise SystemExit("the view is empty")
    begun = time.perf_counter()
    streams = open_blend(get_train_dataset(f"{root}@{view}" if view else root, task_encoder=Raw()))
    seconds["open_seconds"] = time.perf_counter() - begun
    seconds["samples"] = streams.samples
    streams.close()
    return seconds


def created(root: str, expression: str) -> dict[str, float]:
    begun = time.perf_counter()
    report = create_view(root, _VIEW, ViewDefinition(where=expression))
    seconds = time.perf_counter() - begun
    delete_view(root, _VIEW)
    return {"create_seconds": seconds, "samples": report.samples}


if __name__ == "__main__":
    main()
