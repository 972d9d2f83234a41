"""One rank of a job whose state is saved as one value.

`python -m tests.loader.integrations.dcp_process RANK WORLD STORE DATASET SAVING`: SAVING is the only rank that
calls state_dict, or -1 if all ranks do. Prints a report as JSON.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any

from torch import distributed
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

from tests.loader.datasets import Raw
from wdsctl.core.errors import LoaderError
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.integrations.dcp import WholeJob


def a_job(dataset: str, timeout: float) -> WholeJob:
    return WholeJob(
        get_loader(get_train_dataset(dataset, batch_size=4, lanes=6, task_encoder=Raw())), timeout_seconds=timeout
    )


def main(argv: list[str]) -> None:
    rank, world, store, dataset, saving = argv
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world))
    report: dict[str, Any] = {}
    loader = a_job(dataset, 60 if saving == "-1" else 1)
    report["first"] = [batch.__key__ for batch in islice(loader, 3)]
    if saving in ("-1", rank):
        try:
            report["state"] = loader.state_dict()
        except LoaderError as error:
            report["error"] = [error.code, error.message]
    distributed.barrier()
    if saving == "-1":
        state_dict_saver.save({"loader": loader}, checkpoint_id=f"{store}-checkpoint")
        restored = a_job(dataset, 60)
        state_dict_loader.load({"loader": restored}, checkpoint_id=f"{store}-checkpoint")
        report["next"] = next(iter(restored)).__key__
        report["expected"] = next(iter(loader)).__key__
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
