"""Train with Lightning: killed at any moment, it resumes with the next batch on any number of ranks.

torchrun --nproc-per-node 2 examples/integrations/train_lightning.py shards run
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, report, training_data

from wdsctl.loader.integrations.lightning import WdsctlDataModule


class Training(lightning.LightningModule):  # type: ignore[misc] # checked without Lightning
    def __init__(self, die_at: int) -> None:
        super().__init__()
        self.model, self.die_at = NextByte(), die_at
        self.losses: list[torch.Tensor] = []  # of the current step

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss: torch.Tensor = self.model(**batch)["loss"]
        self.losses.append(loss.detach())
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        # An epoch may end within a step, which has fewer batches then.
        if len(self.losses) == self.trainer.accumulate_grad_batches or self.trainer.is_last_batch:
            mean = self.trainer.strategy.reduce(torch.stack(self.losses).mean(), reduce_op="mean")
            self.losses = []
            report(self.global_step, float(mean), self.die_at)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1.0)


def main() -> None:
    args = arguments("Train with Lightning.", has_epochs=True)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=world,
        strategy="ddp" if world > 1 else "auto",
        max_steps=args.steps,
        accumulate_grad_batches=BATCHES_PER_STEP // world,
        callbacks=[ModelCheckpoint(args.folder, every_n_train_steps=SAVE_EVERY, save_last=True)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = Path(args.folder, "last.ckpt")
    training = partial(training_data, args.dataset, virtual_epoch_length=args.epoch // world)
    data = WdsctlDataModule(train=training)
    trainer.fit(Training(args.die_at), datamodule=data, ckpt_path=str(last) if last.exists() else None)


if __name__ == "__main__":
    main()
