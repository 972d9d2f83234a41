"""Train with FSDP2 and torch.distributed.checkpoint: killed at any moment, it resumes on any number of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_fsdp2.py shards run
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data
from torch import distributed
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from wdsctl.loader import get_loader
from wdsctl.loader.integrations.dcp import WholeJob


def main() -> None:
    args = arguments("Train with FSDP2.")
    distributed.init_process_group("gloo")
    world = distributed.get_world_size()
    per_step = BATCHES_PER_STEP // world
    model = NextByte()
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = WholeJob(get_loader(training_data(args.dataset)))
    step = 0
    saved = sorted(Path(args.folder).glob("step-*/.metadata"))  # written last
    if saved:
        checkpoint: dict[str, Any] = {"model": get_model_state_dict(model), "data": data}
        state_dict_loader.load(checkpoint, checkpoint_id=saved[-1].parent)
        set_model_state_dict(model, checkpoint["model"])
        step = int(saved[-1].parent.name.removeprefix("step-"))
    batches = iter(data)
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
            state_dict_saver.save(
                {"model": get_model_state_dict(model), "data": data}, checkpoint_id=f"{args.folder}/step-{step:06}"
            )
        report(step, float(mean), args.die_at)
    distributed.barrier()  # no rank ends while another one still communicates
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
