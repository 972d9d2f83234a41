"""From conversations to rows of tokens for the model: a chat template, a loss mask, and packs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wdsctl.loader import ConversationSample, DefaultTaskEncoder, Sample, SampleDecoder, edataclass


@edataclass
class Row(Sample):
    """A conversation, or a pack of several, one behind the other."""

    tokens: Tensor  # int64 (length,)
    loss_mask: Tensor  # bool (length,): the tokens that the assistant says
    positions: Tensor  # int64 (length,): from 0 in each conversation
    cu_seqlens: Tensor  # int32 (conversations + 1,): where each begins, and where the last one ends
    pixels: Tensor  # float32 (pictures, 3, side, side)
    keys: list[str]  # of the conversations


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    """`processor`: one of transformers, with a chat template that marks the turns of the assistant."""

    decoder = SampleDecoder(image_decode="pilrgb")  # as image processors of transformers take it

    def __init__(self, processor: Any) -> None:
        super().__init__()
        self.processor = processor

    def encode_sample(self, sample: ConversationSample) -> Row:
        encoded = self.processor.apply_chat_template(
            sample.messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, return_tensors="pt"
        )
        tokens, loss_mask = encoded["input_ids"][0], encoded["assistant_masks"][0].bool()
        if not loss_mask.any():
            raise ValueError("no token is the assistant's: does the chat template have {% generation %}?")
        size = self.processor.image_processor.crop_size
        no_pictures = torch.zeros(0, 3, size["height"], size["width"])
        return Row.derive_from(
            sample,
            tokens=tokens,
            loss_mask=loss_mask,
            positions=torch.arange(len(tokens)),
            cu_seqlens=torch.tensor([0, len(tokens)], dtype=torch.int32),
            pixels=encoded.get("pixel_values", no_pictures),
            keys=[sample.__key__],
        )

    def pack_selected_samples(self, rows: list[Row]) -> Row:
        lengths = torch.tensor([0, *(len(row.tokens) for row in rows)])
        return Row.derive_from(
            rows[0],
            tokens=torch.cat([row.tokens for row in rows]),
            loss_mask=torch.cat([row.loss_mask for row in rows]),
            positions=torch.cat([row.positions for row in rows]),
            cu_seqlens=lengths.cumsum(0).int(),
            pixels=torch.cat([row.pixels for row in rows]),
            keys=[key for row in rows for key in row.keys],
        )


def count_tokens(row: Row) -> int:
    """The length by which conversations are packed."""
    return len(row.tokens)
