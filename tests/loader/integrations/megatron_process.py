"""One data-parallel rank of a Megatron-Bridge training, as Bridge saves and restores its iterator.

`python -m tests.loader.integrations.megatron_process RANK WORLD STORE DATASET FOLDER FROM TO`: batches FROM to TO,
restored from FOLDER if FROM is not 0, and saved to FOLDER at the end. Prints the keys of the batches as JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import zipfile
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed

from tests.loader.datasets import Raw
from wdsctl.loader.integrations.megatron import EnergonMultiModalDataModule

LANES = 24  # divisible by 1, 2, 3, 4 and 6 ranks


class PlainUnpickler(pickle.Unpickler):
    """Like Bridge's unpickler of loader states, but stricter: refuses everything but plain values."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def load_plain(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        [name] = [each for each in archive.namelist() if each.endswith("/data.pkl")]
        with archive.open(name) as file:
            return PlainUnpickler(file).load()


def save(iterator: Any, folder: str, group: Any) -> None:
    """Like `maybe_save_dataloader_state`: the state before the barriers, an empty folder, and a file per rank."""
    state = iterator.save_state()
    distributed.barrier(group=group)
    if group.rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    distributed.barrier(group=group)
    torch.save({"dataloader_state_dict": state}, f"{folder}/train_dataloader_dprank{group.rank():03d}.pt")


def restore(iterator: Any, folder: str, group: Any) -> None:
    """Like `maybe_load_dataloader_state`: exactly one file per rank."""
    names = os.listdir(folder)
    if len(names) != group.size():
        raise RuntimeError(f"{len(names)} files for {group.size()} data-parallel ranks")
    loaded = load_plain(f"{folder}/train_dataloader_dprank{group.rank():03d}.pt")
    iterator.restore_state(loaded["dataloader_state_dict"])


def main(argv: list[str]) -> None:
    rank, world, store, dataset, folder, start, end = argv
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world))
    group = distributed.new_group(list(range(int(world))))
    data = EnergonMultiModalDataModule(
        dataset,
        task_encoder=Raw(),
        micro_batch_size=4,
        num_workers=0,
        shuffle_buffer_size=40,
        max_samples_per_sequence=10,
        pg_collection=SimpleNamespace(dp=group, cp=None),
        lanes=LANES,
    )
    iterator, validation = data.build()
    if int(start):
        restore(iterator, folder, group)
    batches = [next(iterator).__key__ for _ in range(int(end) - int(start))]
    if not int(start):
        save(iterator, folder, group)
    evaluated = len(next(validation).__key__)
    sys.stdout.write(json.dumps({"batches": batches, "evaluated": evaluated}))
    sys.stdout.flush()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
