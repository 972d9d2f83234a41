"""Train with Accelerate: killed at any moment, it resumes with the next batch on any number of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_accelerate.py shards run
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch
from accelerate import Accelerator
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data

from wdsctl.loader import get_loader
from wdsctl.loader.integrations.dcp import WholeJob


def main() -> None:
    args = arguments("Train with Accelerate.")
    accelerator = Accelerator(cpu=True)
    per_step = BATCHES_PER_STEP // accelerator.num_processes
    model = NextByte()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    data = WholeJob(get_loader(training_data(args.dataset)))
    accelerator.register_for_checkpointing(data)  # without this line, a resumed training begins the data again
    step = 0
    saved = sorted(Path(args.folder).glob("step-*"))
    if saved:
        accelerator.load_state(str(saved[-1]))
        step = int(saved[-1].name.removeprefix("step-"))
    batches = iter(data)
    while step < args.steps:
        step += 1
        losses = []
        for batch in islice(batches, per_step):
            loss = model(**batch)["loss"]
            accelerator.backward(loss / per_step)
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        mean = accelerator.reduce(torch.stack(losses).mean(), reduction="mean")
        if step % SAVE_EVERY == 0:
            accelerator.save_state(f"{args.folder}/step-{step:06}")
        report(step, float(mean), args.die_at)
    accelerator.end_training()


if __name__ == "__main__":
    main()
