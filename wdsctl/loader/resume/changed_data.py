"""Warns, when a running job saves a state, if the state cannot be resumed because datasets have changed."""

from __future__ import annotations

import time

from wdsctl.core.checkpoint.state import describe_differences, shorten_list
from wdsctl.core.errors import WdsctlError
from wdsctl.loader.plan.open_blend import OpenBlend, open_blend
from wdsctl.loader.plan.open_sources import FileStamp, file_stamp
from wdsctl.loader.recipe.dataset import BaseDataset
from wdsctl.loader.runtime.logs import logger

CHECK_INTERVAL_S = 10.0  # some trainers save a state after every batch


class ChangedDataCheck:
    """Checks the datasets of a job after their catalogs have been replaced. Cost: a `stat` per dataset, at most every
    `CHECK_INTERVAL_S`; after a change, that of opening the blend, once."""

    def __init__(self, dataset: BaseDataset) -> None:
        self._dataset = dataset
        self._next_check = 0.0
        self._checked: dict[str, FileStamp] = {}  # the catalogs at the last check that opened them

    def warn_if_changed(self, streams: OpenBlend) -> None:
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_INTERVAL_S
        stamps = {path: file_stamp(path) for path in streams.catalog_stamps}
        if stamps in (streams.catalog_stamps, self._checked):
            return
        self._checked = stamps
        problem = _find_change(self._dataset, streams)
        if problem:
            logger.warning(
                "a dataset has changed since the job opened it, and states that are saved now cannot be resumed: %s; "
                "restore the dataset and its .wdsctl folder from an older copy, or begin a new run",
                problem,
            )


def _find_change(dataset: BaseDataset, streams: OpenBlend) -> str:
    """What a job that resumes on these data would be refused for; "" if it would not."""
    saved = {"generations": streams.generations, "plan": {"order": streams.order_facts}}
    try:
        now = open_blend(dataset, saved)
    except WdsctlError as error:
        return f"{error.message} ({error.where})" if error.where else error.message
    now.close()
    pairs = zip(streams.component_names, streams.order_facts["sources"], now.order_facts["sources"], strict=True)
    changed = [name for name, before, after in pairs if before != after]
    if changed:
        return f"changed data: {shorten_list(changed)}"
    return "; ".join(describe_differences(streams.order_facts, now.order_facts, ("before", "now")))
