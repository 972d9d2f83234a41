"""Write the loss of every conversation of a split as JSON, {key: mean loss of its tokens}: packed, or one by one."""

from __future__ import annotations

import argparse
import json

import torch
from encode import Encoder, count_tokens
from model import VisionLanguageModel, token_losses
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from transformers import AutoProcessor

from wdsctl.loader import get_loader, get_val_dataset
from wdsctl.loader.packing import Packing


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("processor", metavar="PROCESSOR")
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("losses", metavar="JSON", help="where to write")
    parser.add_argument("--split", default="val", help="default val")
    parser.add_argument("--capacity", type=int, help="pack so many tokens into a row (default: a conversation a row)")
    arguments = parser.parse_args(argv)
    processor = AutoProcessor.from_pretrained(arguments.processor)
    torch.set_num_threads(1)
    model = VisionLanguageModel(processor)
    state = torch.load(arguments.checkpoint, weights_only=True)["model"]
    consume_prefix_in_state_dict_if_present(state, "module.")  # of DistributedDataParallel
    model.load_state_dict(state)
    dataset = get_val_dataset(
        arguments.dataset,
        split_part=arguments.split,
        task_encoder=Encoder(processor),
        packing=Packing(length=count_tokens, capacity=arguments.capacity) if arguments.capacity else None,
        lanes=1,  # the split is small: packs of several lanes would be almost empty
    )
    losses: dict[str, float] = {}
    with torch.no_grad(), get_loader(dataset) as loader:
        for rows, row in enumerate(loader, 1):  # noqa: B007
            logits = model(row.tokens, row.positions, row.cu_seqlens, row.pixels)
            of_tokens, number = token_losses(logits, row.tokens, row.loss_mask, row.cu_seqlens)
            sums = torch.zeros(len(row.keys)).index_add(0, number, of_tokens)
            losses |= zip(row.keys, (sums / number.bincount(minlength=len(row.keys))).tolist(), strict=True)
    with open(arguments.losses, "w", encoding="utf-8") as file:
        json.dump(losses, file, indent=1)
    print(f"{len(losses)} conversations in {rows} rows, mean loss {sum(losses.values()) / len(losses):.4f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
