"""Train with the loader and the checkpoints of NeMo AutoModel's recipes, killed and resumed on other numbers of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_nemo_automodel.py shards run
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from nemo_automodel.components.checkpoint.checkpointing import Checkpointer
from nemo_automodel.components.datasets.loader import ParallelAwareDataloader
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import default_convert

from wdsctl.core.checkpoint.checkpoint import redistribute_checkpoint
from wdsctl.loader.integrations.torchdata import IterableBatches


def main() -> None:
    args = arguments("Train with NeMo AutoModel's loader and checkpoints.")
    distributed.init_process_group("gloo")
    train(args)
    distributed.barrier()  # no rank ends while another one still communicates
    distributed.destroy_process_group()  # not before the model is gone: torch may hang if it is freed later


def train(args: argparse.Namespace) -> None:
    rank, world = distributed.get_rank(), distributed.get_world_size()
    per_step = BATCHES_PER_STEP // world
    model = DistributedDataParallel(NextByte())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = IterableBatches(training_data(args.dataset))
    loader = ParallelAwareDataloader(
        data, dp_rank=rank, dp_world_size=world, batch_size=None, collate_fn=default_convert
    )
    # What a recipe's checkpointer knows, of which its methods for data loaders need these.
    job: Any = SimpleNamespace(
        dp_rank=rank,
        tp_rank=0,
        pp_rank=0,
        process_group=None,
        config=SimpleNamespace(allow_legacy_pickle_restore=False),
    )
    step = 0
    saved = sorted(Path(args.folder).glob("step-*/model.pt"))
    if saved:
        folder = saved[-1].parent
        step = int(folder.name.removeprefix("step-"))
        if rank == 0:  # wdsctl checkpoint redistribute FOLDER/dataloader --ranks N --in-place
            redistribute_checkpoint([str(folder / "dataloader")], ranks=world, in_place=True)
        distributed.barrier()
        model.load_state_dict(torch.load(saved[-1], weights_only=True))
        Checkpointer.load_on_dp_ranks(job, loader, "dataloader", str(folder))
    batches = iter(loader)
    while step < args.steps:
        step += 1
        losses = []
        for batch in islice(batches, per_step):
            loss = model(**batch)["loss"]
            (loss / per_step).backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.stack(losses).mean() / world
        distributed.all_reduce(mean)
        if step % SAVE_EVERY == 0:
            folder = Path(args.folder, f"step-{step:06}")
            Checkpointer.save_on_dp_ranks(job, loader, "dataloader", str(folder))
            distributed.barrier()
            if rank == 0:
                torch.save(model.state_dict(), folder / "model.pt")
            distributed.barrier()
        report(step, float(mean), args.die_at)


if __name__ == "__main__":
    main()
