"""A tiny vision-language model: pictures become tokens among the tokens of the text, and attention respects packs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, LAYERS = 64, 4, 2
MAX_LENGTH = 512  # of one conversation


class VisionLanguageModel(nn.Module):
    """Logits of the next token, for a row of conversations. `processor`: it makes tokens and pictures for the model."""

    def __init__(self, processor: Any) -> None:
        super().__init__()
        self.image_token = processor.image_token_id
        self.vision = VisionTower(processor.image_processor.crop_size["height"], processor.patch_size)
        self.tokens = nn.Embedding(len(processor.tokenizer), WIDTH)
        self.positions = nn.Embedding(MAX_LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)  # torch's 1 is too much for logits from the same weights

    def forward(self, tokens: Tensor, positions: Tensor, cu_seqlens: Tensor, pixels: Tensor) -> Tensor:
        """`tokens` and `positions`: int64 (length,). `cu_seqlens`: where each conversation begins, and where the last
        one ends. `pixels`: (pictures, 3, side, side), in the order of their tokens. Returns (length, vocabulary).
        """
        hidden = self.tokens(tokens)
        is_image = tokens == self.image_token
        # Without a picture the tower still has a part in the result, so that every rank has gradients for it.
        hidden = hidden.masked_scatter(is_image[:, None], self.vision(pixels).flatten(0, 1))
        hidden = hidden + self.positions(positions)
        mask = pack_mask(cu_seqlens)
        for block in self.blocks:
            hidden = block(hidden, mask)
        logits: Tensor = functional.linear(self.norm(hidden), self.tokens.weight)
        return logits


def pack_mask(cu_seqlens: Tensor) -> Tensor:
    """bool (length, length): whether the token of a row may attend to that of a column. It may if both belong to one
    conversation, and the other does not come later.
    """
    document = document_ids(cu_seqlens)
    return (document[:, None] == document[None, :]).tril()


def document_ids(cu_seqlens: Tensor) -> Tensor:
    """int64 (length,): the number of the conversation that each token of a row belongs to."""
    lengths = cu_seqlens.diff().long()
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)


class VisionTower(nn.Module):
    """Patches of pictures to the embeddings of tokens: (pictures, 3, side, side) to (pictures, patches, WIDTH)."""

    def __init__(self, side: int, patch: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, WIDTH))
        self.block = Block()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.patches(pixels).flatten(2).transpose(1, 2) + self.positions
        embeddings: Tensor = self.project(self.block(patches, None))
        return embeddings


class Block(nn.Module):
    """A pre-norm transformer block over (length, WIDTH) or (batch, length, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        heads = self.qkv(self.norm_attention(hidden)).unflatten(-1, (3, HEADS, -1))
        query, key, value = heads.movedim(-3, 0).transpose(-3, -2)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = hidden + self.out(attended.transpose(-3, -2).flatten(-2))
        result: Tensor = hidden + self.feed(self.norm_feed(hidden))
        return result


def token_losses(logits: Tensor, tokens: Tensor, loss_mask: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each token that the assistant says, and the number of its conversation in the row.

    Token i is predicted at i - 1. The first token of a conversation is never predicted: what is before it in the row is
    another conversation.
    """
    document = document_ids(cu_seqlens)
    counts = loss_mask[1:] & (document[1:] == document[:-1])
    return functional.cross_entropy(logits[:-1][counts], tokens[1:][counts], reduction="none"), document[1:][counts]
