"""Train with transformers' Trainer: killed at any moment, it resumes with the next batch on any number of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_transformers.py shards run
"""

from __future__ import annotations

import argparse
import gc
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data
from torch import distributed
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from wdsctl.loader.integrations.transformers import WdsctlTrainerMixin

# With several ranks on CPUs, transformers 4 loads the optimizer to "cpu:0", which torch.load does not know.
torch.serialization.register_package(
    100, lambda _: None, lambda storage, location: storage if location == "cpu:0" else None
)


class ByteTrainer(WdsctlTrainerMixin, Trainer):  # type: ignore[misc] # transformers has no types
    """Trains on the datasets that it gets."""


class PrintLoss(TrainerCallback):  # type: ignore[misc]
    def __init__(self, die_at: int) -> None:
        self.die_at = die_at

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, float], **_: Any) -> None:
        if "loss" in logs:
            report(state.global_step, float(logs["loss"]), self.die_at)


def main() -> None:
    args = arguments("Train with transformers.", has_epochs=True)
    train(args)
    gc.collect()  # trainer and model refer to each other
    if distributed.is_initialized():
        distributed.barrier()  # no rank ends while another one still communicates
        distributed.destroy_process_group()  # not before the model is gone: torch may hang if it is freed later


def train(args: argparse.Namespace) -> None:
    Path(args.folder).mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "use_cpu": True}
    options = TrainingArguments(args.folder, max_steps=args.steps, save_steps=SAVE_EVERY, logging_steps=1, **settings)
    world = distributed.get_world_size() if distributed.is_initialized() else 1
    options.gradient_accumulation_steps = BATCHES_PER_STEP // world
    data = partial(training_data, args.dataset, virtual_epoch_length=args.epoch // world)
    trainer = ByteTrainer(NextByte(), options, train_dataset=data, callbacks=[PrintLoss(args.die_at)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(args.folder))


if __name__ == "__main__":
    main()
