"""A task encoder for vision-language models of Megatron: conversations to tokens, labels, a loss mask and images.

Takes a tokenizer and an image processor of transformers, and imports neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.text import pluralize
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.recipe.task_encoder import DefaultTaskEncoder
from wdsctl.loader.runtime.failures import SkipSample
from wdsctl.loader.samples import Sample, edataclass
from wdsctl.loader.samples.types import CaptioningSample, ConversationSample, VQASample

Messages = list[dict[str, Any]]

#: In a chat template that takes content as a list of items. Others take a text.
_ITEM_TYPE = re.compile(r"\btype\b['\"]?\]?\s*[!=]=|\[['\"]type['\"]\]")


@dataclass(frozen=True)
class MultiModalSampleConfig:
    """How a `MultiModalTaskEncoder` writes a conversation as tokens.

    `image_token` marks an image in the rendered text. If the tokenizer knows it, its id is in the tokens; otherwise
    `image_token_id`. `tokens_per_image`: how often the id is repeated. `ignore_place_holder`: the label of tokens
    without a loss. `chat_template`: a Jinja template; None: the tokenizer's. `caption_prompt`: the user's turn before a
    caption. `pad_to_multiple_of`: batches are padded to a multiple of this number of tokens; with `pad_to_max_length`,
    to the maximum length.
    """

    image_token: str = "<image>"  # noqa: S105 - no secret
    image_token_id: int = -200
    tokens_per_image: int = 1
    ignore_place_holder: int = -100
    chat_template: str | None = None
    caption_prompt: str = "Describe the image."
    pad_to_multiple_of: int = 1
    pad_to_max_length: bool = False


@edataclass
class MultiModalSequence(Sample):
    """One conversation, or a pack of several, one after the other."""

    input_ids: Tensor  # int64 (length,)
    labels: Tensor  # int64 (length,): the next token, or `ignore_place_holder`
    position_ids: Tensor  # int64 (length,): from 0 in each conversation
    lengths: list[int]  # of the conversations
    images: list[dict[str, Tensor]]  # of each image, what the image processor returns
    is_pack: bool = False  # also of a pack of one conversation


def count_tokens(sequence: MultiModalSequence) -> int:
    """The length by which sequences are packed."""
    return len(sequence.input_ids)


class MultiModalTaskEncoder(DefaultTaskEncoder[Any, MultiModalSequence, Any, dict[str, Any]]):
    """Conversations, questions with answers, and captions, as batches for a vision-language model of Megatron.

    A batch is a dict with tensors of shape (batch, length): `input_ids`, `labels` (the next token of each position),
    `loss_mask` (float32, 1 where the assistant speaks), `position_ids`, and `attention_mask` (bool, False on padding).
    `num_images` has the number of images of each row; the outputs of the image processor (`pixel_values` and others)
    are concatenated over all images, or a list if their sizes differ, or missing without images. A batch of a pack is
    one row, with `cu_seqlens_q`, `cu_seqlens_kv` (int32), `max_seqlen_q` and `max_seqlen_kv`: the boundaries of its
    conversations; padding is the last of them.

    Sequences longer than `seq_length` are cut, and so are their images: an image stays with all of its tokens, or goes.
    A sample without a token of the assistant is skipped, and counted in `loader.stats`. A sample fails (WDS161) if the
    rendered text has more or fewer image tokens than the sample has images. Raises UsageError for a tokenizer without
    a chat template.
    """

    decoder = SampleDecoder(image_decode="pilrgb")  # as image processors take it

    def __init__(
        self,
        tokenizer: Any,
        image_processor: Any = None,
        *,
        seq_length: int = 2048,
        sample_config: MultiModalSampleConfig | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer = _find_tokenizer(tokenizer)
        self.image_processor = image_processor
        self.seq_length = seq_length
        self.sample_config = sample_config or MultiModalSampleConfig()
        template = self.sample_config.chat_template or getattr(self.tokenizer, "chat_template", None)
        if not template:
            raise UsageError(
                "the tokenizer has no chat template",
                hint="pass MultiModalSampleConfig(chat_template=...), or set tokenizer.chat_template",
            )
        self._template: str = template if isinstance(template, str) else template["default"]
        known = self.tokenizer.get_vocab().get(self.sample_config.image_token)
        self._image_id: int = self.sample_config.image_token_id if known is None else known

    def encode_sample(self, sample: Any) -> MultiModalSequence:
        """The tokens and labels of one conversation."""
        config = self.sample_config
        messages, images = self._read_messages(sample)
        text, spans = self._render(messages, getattr(sample, "tools", None))
        self._check_image_count(text, len(images))
        tokens, is_answer = self._tokenize(text, spans)
        tokens, is_answer = tokens[: self.seq_length], is_answer[: self.seq_length]
        cut_tokens = int((tokens == self._image_id).sum()) % config.tokens_per_image  # of an image that is cut in two
        tokens, is_answer = tokens[: len(tokens) - cut_tokens], is_answer[: len(tokens) - cut_tokens]
        if not is_answer[1:].any():
            raise SkipSample("no answer within seq_length")
        labels = torch.full_like(tokens, config.ignore_place_holder)
        labels[:-1] = torch.where(is_answer[1:], tokens[1:], labels[1:])
        image_count = int((tokens == self._image_id).sum()) // config.tokens_per_image
        return MultiModalSequence.derive_from(
            sample,
            input_ids=tokens,
            labels=labels,
            position_ids=torch.arange(len(tokens)),
            lengths=[len(tokens)],
            images=[self._process_image(image) for image in images[:image_count]],
        )

    def pack_selected_samples(self, samples: list[MultiModalSequence]) -> MultiModalSequence:
        """One sequence of the conversations of a pack."""
        return MultiModalSequence.derive_from(
            samples[0],
            input_ids=torch.cat([each.input_ids for each in samples]),
            labels=torch.cat([each.labels for each in samples]),
            position_ids=torch.cat([each.position_ids for each in samples]),
            lengths=[length for each in samples for length in each.lengths],
            images=[image for each in samples for image in each.images],
            is_pack=True,
        )

    def batch(self, samples: list[MultiModalSequence]) -> dict[str, Any]:
        """Rows padded to one length, and the images of all rows."""
        ignored, padding = self.sample_config.ignore_place_holder, self.tokenizer.pad_token_id
        width = self._padded_width(max(len(each.input_ids) for each in samples))
        labels = _pad([each.labels for each in samples], width, ignored)
        batch: dict[str, Any] = {
            "input_ids": _pad([each.input_ids for each in samples], width, 0 if padding is None else padding),
            "labels": labels,
            "loss_mask": (labels != ignored).float(),
            "position_ids": _pad([each.position_ids for each in samples], width, 0),
            "attention_mask": _pad([torch.ones_like(each.input_ids, dtype=torch.bool) for each in samples], width, 0),
            "num_images": torch.tensor([len(each.images) for each in samples]),
            **_join_images([image for each in samples for image in each.images]),
        }
        if any(each.is_pack for each in samples):
            batch |= _pack_boundaries(samples, width)
        return batch

    def _read_messages(self, sample: Any) -> tuple[Messages, list[Any]]:
        """(messages, images in their order) of a sample. Raises UsageError for a type without a conversation."""
        if isinstance(sample, ConversationSample):
            return sample.messages, sample.images
        if isinstance(sample, VQASample):
            answers = sample.answers
            answer = answers[0] if isinstance(answers, Sequence) and not isinstance(answers, str) else answers
            return self._image_turn(sample.context, answer), [sample.image]
        if isinstance(sample, CaptioningSample):
            return self._image_turn(self.sample_config.caption_prompt, sample.caption), [sample.image]
        raise UsageError(
            f"{type(sample).__name__} is no conversation, question or caption",
            hint="override encode_sample of MultiModalTaskEncoder, or set the sample type: wdsctl prepare DATASET "
            "--sample-type ConversationSample",
        )

    def _image_turn(self, question: str, answer: Any) -> Messages:
        """A question about an image with its answer. The image comes first, unless the question has its token."""
        image = [] if self.sample_config.image_token in question else [{"type": "image"}]
        return [
            {"role": "user", "content": [*image, {"type": "text", "text": question}]},
            {"role": "assistant", "content": [{"type": "text", "text": "" if answer is None else str(answer)}]},
        ]

    def _check_image_count(self, text: str, images: int) -> None:
        """Raise SampleFailed WDS161 unless the rendered text has a token for each image."""
        token = self.sample_config.image_token
        count = text.count(token)
        if count != images:
            raise SampleFailed(
                f"the rendered conversation has {pluralize(count, 'image token')} {token!r}, but the sample has "
                f"{pluralize(images, 'image')}",
                hint="pass MultiModalSampleConfig(image_token=...) with the token that the chat template writes for an "
                "image",
                code="WDS161",
            )

    def _render(self, messages: Messages, tools: Any) -> tuple[str, list[tuple[int, int]]]:
        """The text of a conversation, and (start, end) of each part that the assistant says."""
        takes_items = _ITEM_TYPE.search(self._template) is not None
        turns = [{**each, "content": self._content(each["content"], takes_items=takes_items)} for each in messages]

        def render(count: int, *, is_prompt: bool = False) -> str:
            rendered: str = self.tokenizer.apply_chat_template(
                turns[:count],
                tools=tools,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=is_prompt,
            )
            return rendered

        text, spans = render(len(turns)), []
        for i, turn in enumerate(turns):
            if turn["role"] != "assistant":
                continue
            prompts = (render(i, is_prompt=True), render(i)) if i else ("",)
            end = render(i + 1)
            start = next((each for each in prompts if end.startswith(each)), None)
            if start is None or not text.startswith(end):
                raise UsageError(
                    "the chat template rewrites earlier turns when a turn is added, so the turns of the assistant "
                    "cannot be located",
                    hint="pass MultiModalSampleConfig(chat_template=...) with a template that only appends",
                )
            spans.append((len(start), len(end)))
        return text, spans

    def _content(self, content: Any, *, takes_items: bool) -> Any:
        """The content of a turn as the template takes it: items, or a text with the image token in its places."""
        items = [{"type": "text", "text": content}] if isinstance(content, str) else content
        unknown = sorted({item["type"] for item in items} - {"text", "image"})
        if unknown:
            raise UsageError(
                f"MultiModalTaskEncoder takes text and images, not {', '.join(unknown)}",
                hint="override encode_sample",
            )
        if takes_items:
            return [item if item["type"] == "text" else {"type": "image"} for item in items]
        return "".join(item["text"] if item["type"] == "text" else self.sample_config.image_token for item in items)

    def _tokenize(self, text: str, spans: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """(tokens, whether the assistant says each): int64 and bool, (length,)."""
        config = self.sample_config
        tokens: list[int] = []
        is_answer: list[bool] = []
        start = 0
        for i, piece in enumerate(text.split(config.image_token)):
            if i:
                tokens += [self._image_id] * config.tokens_per_image
                is_answer += [False] * config.tokens_per_image
                start += len(config.image_token)
            for begin, end, answers in _cut(start, start + len(piece), spans):
                found = self.tokenizer(text[begin:end], add_special_tokens=False)["input_ids"]
                tokens += found
                is_answer += [answers] * len(found)
            start += len(piece)
        return torch.tensor(tokens, dtype=torch.int64), torch.tensor(is_answer, dtype=torch.bool)

    def _process_image(self, image: Any) -> dict[str, Tensor]:
        if self.image_processor is None:
            raise UsageError("the sample has an image, and there is no image processor", hint="pass image_processor=")
        outputs: Mapping[str, Any] = self.image_processor(images=[image], return_tensors="pt")
        return {name: value for name, value in outputs.items() if isinstance(value, Tensor)}

    def _padded_width(self, longest: int) -> int:
        if self.sample_config.pad_to_max_length:
            return self.seq_length
        multiple = self.sample_config.pad_to_multiple_of
        return -(-longest // multiple) * multiple


def _find_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer of transformers in a processor of transformers, or in a tokenizer of Megatron."""
    for name in ("", "tokenizer", "_tokenizer"):
        found = getattr(tokenizer, name, None) if name else tokenizer
        if hasattr(found, "apply_chat_template") and hasattr(found, "get_vocab"):
            return found
    raise UsageError(
        f"expected a tokenizer of transformers, found {type(tokenizer).__name__}",
        hint="pass AutoTokenizer.from_pretrained(...), or your own task_encoder",
    )


def _cut(start: int, end: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """The range [start, end) cut at the ends of spans: (begin, end, whether in a span), without empty ones."""
    edges = sorted({start, end, *(edge for span in spans for edge in span if start < edge < end)})
    return [
        (begin, stop, any(first <= begin and stop <= last for first, last in spans)) for begin, stop in pairwise(edges)
    ]


def _pad(rows: Sequence[Tensor], width: int, value: int) -> Tensor:
    padded = rows[0].new_full((len(rows), width), value)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def _join_images(images: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
    """Each output of the image processor over all images: one tensor, or a list if sizes differ."""
    joined: dict[str, Any] = {}
    for name in images[0] if images else ():
        values = [image[name] for image in images]
        joined[name] = torch.cat(values) if len({value.shape[1:] for value in values}) == 1 else values
    return joined


def _pack_boundaries(packs: Sequence[MultiModalSequence], width: int) -> dict[str, Tensor]:
    if len(packs) > 1:
        raise UsageError(f"a batch has {len(packs)} packs, and can describe one", hint="pass micro_batch_size=1")
    lengths = [0, *packs[0].lengths]
    if sum(lengths) < width:
        lengths.append(width - sum(lengths))
    boundaries = torch.tensor(lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    longest = torch.tensor(max(lengths), dtype=torch.int32)
    return {
        "cu_seqlens_q": boundaries,
        "cu_seqlens_kv": boundaries,
        "max_seqlen_q": longest,
        "max_seqlen_kv": longest,
    }
