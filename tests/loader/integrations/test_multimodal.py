"""Conversations as token rows for Megatron: the loss covers the assistant's turns, and packs keep their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.loader.datasets import a_dataset
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader import CaptioningSample, ConversationSample, SkipSample, TextSample, VQASample, WorkerConfig
from wdsctl.loader.integrations.megatron import EnergonMultiModalDataModule
from wdsctl.loader.integrations.multimodal import MultiModalSampleConfig, MultiModalTaskEncoder

BASE: dict[str, Any] = {"__restore_key__": (), "__subflavors__": {}, "__sources__": ()}


class CharacterTokenizer:
    """A small stand-in for a tokenizer of transformers: a token per character, 0 is padding, 1 an image if known.

    `template`: "text" for "{role}>{text}\\n" per turn, or "items ... type ==" if it takes content as items.
    """

    pad_token_id = 0

    def __init__(self, template: str | None = "text", *, knows_image: bool = True) -> None:
        self.chat_template = template
        self.knows_image = knows_image

    def get_vocab(self) -> dict[str, int]:
        return {"<image>": 1} if self.knows_image else {}

    def apply_chat_template(self, turns: list[Any], *, add_generation_prompt: bool, **_: Any) -> str:
        text = "".join(f"{turn['role'][0]}>{self.content(turn['content'])}\n" for turn in turns)
        return f"{text}a>" if add_generation_prompt else text

    def content(self, content: Any) -> str:
        if isinstance(content, str):
            assert self.chat_template == "text"
            return content
        return "".join(item["text"] if item["type"] == "text" else "<image>" for item in content)

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(character) for character in text]}


class WidthProcessor:
    """An image processor that returns a 2 x 2 tensor per image, filled with its width."""

    def __call__(self, images: list[Any], return_tensors: str) -> dict[str, Any]:
        return {"pixel_values": torch.stack([torch.full((2, 2), float(image.width)) for image in images]), "other": 1}


def conversation(*turns: tuple[str, str], images: int = 0) -> ConversationSample:
    """A sample whose first turn has `images` images before its text."""
    pictures = [Image.new("RGB", (10 + i, 4)) for i in range(images)]
    items: list[dict[str, Any]] = [{"type": "image", "image": picture} for picture in pictures]
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns]
    messages[0]["content"] = [*items, *messages[0]["content"]]
    return ConversationSample(__key__="k", messages=messages, images=pictures, **BASE)


def an_encoder(tokenizer: Any = None, **options: Any) -> MultiModalTaskEncoder:
    config = MultiModalSampleConfig(**{key: options.pop(key) for key in list(options) if key != "seq_length"})
    return MultiModalTaskEncoder(tokenizer or CharacterTokenizer(), WidthProcessor(), sample_config=config, **options)


def loss_text(row: Any) -> str:
    """The labels without ignored ones, as text."""
    return "".join(chr(label) for label in row.labels.tolist() if label != -100)


@pytest.mark.parametrize("template", ["text", "{% if item.type == 'image' %}", "item['type']"])
def test_labels_are_assistant_tokens_shifted_by_one(template: str) -> None:
    sample = conversation(("system", "be"), ("user", "hi"), ("assistant", "yo"), ("user", "?"), ("assistant", "!"))

    row = an_encoder(CharacterTokenizer(template)).encode_sample(sample)

    text = "".join(map(chr, row.input_ids.tolist()))
    assert text == "s>be\nu>hi\na>yo\nu>?\na>!\n"
    assert loss_text(row) == "yo\n!\n"
    assert chr(row.labels[text.index("yo") - 1]) == "y"
    assert row.position_ids.tolist() == list(range(len(text)))


@pytest.mark.parametrize(("has_image_token", "expected"), [(True, 1), (False, -200)])
def test_images_become_image_tokens_in_place(has_image_token: bool, expected: int) -> None:
    sample = conversation(("user", "two"), ("assistant", "ok"), images=2)

    row = an_encoder(CharacterTokenizer(knows_image=has_image_token), tokens_per_image=3).encode_sample(sample)

    assert row.input_ids.tolist()[2:8] == [expected] * 6
    assert [float(image["pixel_values"].mean()) for image in row.images] == [10, 11]
    assert set(row.images[0]) == {"pixel_values"}


def test_long_conversation_is_truncated_and_skipped_without_assistant() -> None:
    sample = conversation(("assistant", "first"), ("user", "x"), ("assistant", "y"))
    sample.messages[1]["content"].append({"type": "image"})
    sample.images.append(Image.new("RGB", (5, 5)))

    row = an_encoder(seq_length=9).encode_sample(sample)

    assert (len(row.input_ids), row.images, loss_text(row)) == (9, [], ">first\n")
    with pytest.raises(SkipSample):
        an_encoder().encode_sample(conversation(("user", "alone")))
    with pytest.raises(SkipSample):
        an_encoder(seq_length=4).encode_sample(conversation(("user", "longer"), ("assistant", "never")))


def test_image_is_cut_with_all_of_its_tokens() -> None:
    sample = conversation(("assistant", "first"), ("user", "x"), ("assistant", "y"))
    sample.messages[1]["content"].append({"type": "image"})
    sample.images.append(Image.new("RGB", (5, 5)))

    rows = [an_encoder(seq_length=length, tokens_per_image=4).encode_sample(sample) for length in (13, 14, 15)]

    assert [(len(row.input_ids), row.input_ids.tolist().count(1), len(row.images)) for row in rows] == [
        (11, 0, 0),
        (11, 0, 0),
        (15, 4, 1),
    ]


def test_sample_fails_if_image_tokens_and_images_differ() -> None:
    sample = conversation(("user", "a"), ("assistant", "b"), images=1)
    with pytest.raises(SampleFailed, match="0 image tokens '<picture>', but the sample has 1 image") as raised:
        an_encoder(CharacterTokenizer("item['type']"), image_token="<picture>").encode_sample(sample)  # noqa: S106
    assert raised.value.code == "WDS161"

    image = Image.new("RGB", (7, 7))
    question = VQASample(__key__="q", image=image, context="<image>why", answers="so", **BASE)
    row = an_encoder().encode_sample(question)
    assert (row.input_ids.tolist().count(1), len(row.images)) == (1, 1)
    with pytest.raises(SampleFailed, match="2 image tokens"):
        an_encoder().encode_sample(VQASample(__key__="q", image=image, context="<image><image>", answers="", **BASE))


def test_vqa_and_captioning_samples_become_conversations() -> None:
    image = Image.new("RGB", (7, 7))
    encoder = an_encoder(caption_prompt="What?")

    question = encoder.encode_sample(VQASample(__key__="q", image=image, context="why", answers=["so", "no"], **BASE))
    caption = encoder.encode_sample(CaptioningSample(__key__="c", image=image, caption="cat", **BASE))

    assert (loss_text(question), loss_text(caption)) == ("so\n", "cat\n")
    assert len(question.images) == len(caption.images) == 1
    with pytest.raises(UsageError, match="TextSample is no conversation"):
        encoder.encode_sample(TextSample(__key__="t", text="x", **BASE))


def test_batch_pads_rows_and_masks_padding() -> None:
    encoder = an_encoder(pad_to_multiple_of=8)
    rows = [
        encoder.encode_sample(conversation(("user", "a"), ("assistant", "bcd"), images=1)),
        encoder.encode_sample(conversation(("user", "a"), ("assistant", "b"))),
    ]

    batch = encoder.batch(rows)

    assert batch["input_ids"].shape == (2, 16)
    assert batch["attention_mask"].sum(1).tolist() == [len(row.input_ids) for row in rows]
    assert (batch["loss_mask"] == (batch["labels"] != -100)).all()
    assert not batch["loss_mask"][~batch["attention_mask"]].any()
    assert batch["num_images"].tolist() == [1, 0]
    assert batch["pixel_values"].shape == (1, 2, 2)
    assert an_encoder(pad_to_max_length=True, seq_length=50).batch(rows)["labels"].shape == (2, 50)


def test_pack_keeps_bounds_positions_and_loss_of_conversations() -> None:
    encoder = an_encoder(pad_to_multiple_of=10)
    rows = [encoder.encode_sample(conversation(("user", "a"), ("assistant", text))) for text in ("b", "cde")]

    batch = encoder.batch([encoder.pack_selected_samples(rows)])

    lengths = [len(row.input_ids) for row in rows]
    assert batch["cu_seqlens_q"].tolist() == [0, lengths[0], sum(lengths), 20]
    assert batch["cu_seqlens_kv"].tolist() == batch["cu_seqlens_q"].tolist()
    assert int(batch["max_seqlen_q"]) == max(*lengths, 20 - sum(lengths))
    assert batch["position_ids"][0].tolist()[: sum(lengths)] == [*range(lengths[0]), *range(lengths[1])]
    assert float(batch["loss_mask"].sum()) == len("b\ncde\n")
    assert batch["labels"][0, lengths[0] - 1] == -100
    alone = encoder.batch([encoder.pack_selected_samples(rows[:1])])
    assert alone["cu_seqlens_q"].tolist() == [0, lengths[0], 10]
    assert "cu_seqlens_q" not in encoder.batch(rows[:1])
    with pytest.raises(UsageError, match="2 packs"):
        encoder.batch([encoder.pack_selected_samples(rows)] * 2)


def test_chat_template_that_rewrites_earlier_turns_is_refused() -> None:
    class RewritingTokenizer(CharacterTokenizer):
        def apply_chat_template(self, turns: list[Any], **options: Any) -> str:
            return f"{len(turns)}:{super().apply_chat_template(turns, **options)}"

    with pytest.raises(UsageError, match="rewrites earlier turns"):
        an_encoder(RewritingTokenizer()).encode_sample(conversation(("user", "a"), ("assistant", "b")))


def test_encoder_refuses_unsupported_tokenizers_and_content() -> None:
    with pytest.raises(UsageError, match="no chat template"):
        an_encoder(CharacterTokenizer(None))
    with pytest.raises(UsageError, match="expected a tokenizer of transformers"):
        MultiModalTaskEncoder(object())
    sample = conversation(("user", "a"), ("assistant", "b"), images=1)
    with pytest.raises(UsageError, match="no image processor"):
        MultiModalTaskEncoder(CharacterTokenizer()).encode_sample(sample)
    sample.messages[0]["content"].append({"type": "video"})
    with pytest.raises(UsageError, match="not video"):
        an_encoder().encode_sample(sample)


def test_tokenizer_inside_processor_is_found() -> None:
    class Holder:
        def __init__(self, name: str) -> None:
            setattr(self, name, CharacterTokenizer())

    for name in ("tokenizer", "_tokenizer"):
        assert isinstance(MultiModalTaskEncoder(Holder(name)).tokenizer, CharacterTokenizer)


def test_data_module_packs_by_tokens(tmp_path: Path) -> None:
    def parts(i: int) -> dict[str, bytes]:
        turns = [{"role": "user", "content": "q" * (i % 7 + 1)}, {"role": "assistant", "content": "a" * (i % 5 + 1)}]
        return {"json": str({"messages": turns}).replace("'", '"').encode()}

    root = a_dataset(tmp_path / "chats", 60, parts=parts, sample_type="ConversationSample")
    options: dict[str, Any] = {
        "tokenizer": CharacterTokenizer(),
        "seq_length": 64,
        "packing_buffer_size": 20,
        "num_workers": 0,
    }
    iterator = EnergonMultiModalDataModule(root, **options).train_dataloader()

    for _ in range(10):
        batch = next(iterator)
        assert batch["input_ids"].shape[0] == 1
        assert batch["cu_seqlens_q"][-1] == batch["input_ids"].shape[1] <= 64
        assert batch["position_ids"][0, batch["cu_seqlens_q"][:-1].long()].tolist() == [0] * (
            len(batch["cu_seqlens_q"]) - 1
        )
    several = EnergonMultiModalDataModule(root, micro_batch_size=2, **options)
    with pytest.raises(UsageError, match="a batch of packs is one sequence"):
        several.datasets_provider(WorkerConfig(), "train")
