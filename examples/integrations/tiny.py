"""What the examples of this folder share: a dataset of texts, a model of 8,000 parameters, and the command line."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

import torch
from torch import Tensor, nn

from wdsctl.loader import DefaultTaskEncoder, get_train_dataset
from wdsctl.loader.recipe.dataset import TrainDataset

#: Batches per optimiser step of all ranks: 6 on a single rank, 3 on each of two ranks, 2 on each of three.
BATCHES_PER_STEP = 6
SAVE_EVERY = 4  # steps


class Texts(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of bytes, as dicts: `input_ids` and `labels`, int64 (batch, 16)."""

    decoder = None

    def encode_batch(self, batch: Any) -> dict[str, Tensor]:
        texts = torch.tensor([list(text[:17].ljust(17)) for text in batch.txt])
        return {"input_ids": texts[:, :-1].contiguous(), "labels": texts[:, 1:].contiguous()}


class NextByte(nn.Module):
    """Predicts each byte from the one before it. Returns the loss, and the logits, (batch, 16, 256)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bytes = nn.Embedding(256, 16)
        self.answer = nn.Linear(16, 256)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.answer(self.bytes(input_ids))
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def training_data(path: str, **options: Any) -> TrainDataset:
    """Endless batches of 4 texts. With 12 lanes, they are the same on 1, 2, 3, 4, 6 and 12 ranks."""
    return get_train_dataset(path, batch_size=4, lanes=12, shuffle_buffer_size=20, task_encoder=Texts(), **options)


def arguments(description: str, *, has_epochs: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dataset", help="a prepared dataset of texts")
    parser.add_argument("folder", help="for the checkpoints; the training resumes from the last one there")
    parser.add_argument("--steps", type=int, default=8, help="train to this step (default 8)")
    parser.add_argument("--die-at", type=int, default=0, metavar="STEP", help="end rank 0 by SIGKILL after this step")
    if has_epochs:
        parser.add_argument("--epoch", type=int, default=0, metavar="N", help="batches of all ranks in a virtual epoch")
    return parser.parse_args()


def report(step: int, loss: float, die_at: int) -> None:
    """On rank 0, print the loss of a step, and then end the process by SIGKILL, if it should die here."""
    if int(os.environ.get("RANK", "0")):
        return  # torchrun kills the other ranks
    print(f"step {step} loss {loss:.6f}", flush=True)
    if step == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
