"""Train with DistributedDataParallel: killed at any moment, it resumes with the next batch on any number of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_ddp.py shards run
"""

from __future__ import annotations

import argparse
import os
from itertools import islice

import torch
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from wdsctl.loader import get_loader


def main() -> None:
    args = arguments("Train with DistributedDataParallel.")
    distributed.init_process_group("gloo")
    train(args)
    distributed.barrier()  # no rank ends while another one still communicates
    distributed.destroy_process_group()  # not before the model is gone: torch may hang if it is freed later


def train(args: argparse.Namespace) -> None:
    per_step = BATCHES_PER_STEP // distributed.get_world_size()
    model = DistributedDataParallel(NextByte())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = get_loader(training_data(args.dataset))
    path = os.path.join(args.folder, "checkpoint.pt")
    step = 0
    if os.path.exists(path):
        checkpoint = torch.load(path, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        loader.load_state_dict(checkpoint["loader"])  # the states of all ranks
        step = checkpoint["step"]
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
        mean = torch.stack(losses).mean() / distributed.get_world_size()
        distributed.all_reduce(mean)
        if step % SAVE_EVERY == 0:
            states = loader.save_state_global()  # all ranks call it, rank 0 gets the states
            if distributed.get_rank() == 0:
                os.makedirs(args.folder, exist_ok=True)
                torch.save({"model": model.state_dict(), "loader": states, "step": step}, f"{path}.new")
                os.replace(f"{path}.new", path)
        report(step, float(mean), args.die_at)


if __name__ == "__main__":
    main()
