"""Build a processor of transformers for the example, and save it to a folder. Nothing is downloaded.

A processor is a tokenizer, a chat template and an image processor. The tokenizer is trained on the conversations
themselves. To use the processor of a real model instead, pass its folder or its name on the Hub to train.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlavaImageProcessorPil, LlavaProcessor, PreTrainedTokenizerFast

SIDE, PATCH = 32, 8  # pixels of a picture's and a patch's side: 16 patches, each of which is one token
VOCABULARY = 400
PAD, END, IMAGE = "<|pad|>", "<|end|>", "<image>"

#: What stands between `generation` and `endgeneration` is what the model learns to say: the turns of the assistant.
CHAT_TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|' + message.role + '|>' -}}
  {%- if message.role == 'assistant' -%}
    {%- generation -%}
      {%- for item in message.content -%}{{- item.text -}}{%- endfor -%}
      {{- '<|end|>' -}}
    {%- endgeneration -%}
  {%- else -%}
    {%- for item in message.content -%}
      {{- '<image>' if item.type == 'image' else item.text -}}
    {%- endfor -%}
    {{- '<|end|>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", metavar="JSON", help="a file of conversations, whose texts the tokenizer learns")
    parser.add_argument("folder", metavar="FOLDER", help="where to write the processor's files")
    arguments = parser.parse_args(argv)
    with open(arguments.data, encoding="utf-8") as file:
        texts = [turn["value"] for sample in json.load(file) for turn in sample["conversations"]]
    processor = build_processor(texts)
    processor.save_pretrained(arguments.folder)
    print(f"wrote {arguments.folder}: a vocabulary of {len(processor.tokenizer)}, pictures of {SIDE} x {SIDE}")
    return 0


def build_processor(texts: Iterable[str]) -> LlavaProcessor:
    return LlavaProcessor(
        image_processor=LlavaImageProcessorPil(
            do_pad=True,  # to a square, so that nothing is cut off
            size={"shortest_edge": SIDE},
            crop_size={"height": SIDE, "width": SIDE},
        ),
        tokenizer=train_tokenizer(texts),
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=CHAT_TEMPLATE,
        image_token=IMAGE,
    )


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2 and many since have it: any text has tokens, and every token belongs to one turn."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, END, IMAGE, "<|system|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, extra_special_tokens=[IMAGE, *special[3:]]
    )


if __name__ == "__main__":
    raise SystemExit(main())
