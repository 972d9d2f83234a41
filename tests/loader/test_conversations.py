"""A LLaVA file with images becomes messages with each image in its place."""

from __future__ import annotations

import importlib.util
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.build import a_dataset, a_folder
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.config import load_config
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import (
    ConversationSample,
    Cooker,
    DefaultTaskEncoder,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)
from wdsctl.loader.runtime.failures import reraise_exception

IMAGES = 12  # so that numeric order differs from that of texts


def picture(width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, 3), (width, 0, 0)).save(file, "PNG")
    return file.getvalue()


def turns(*words: str) -> list[dict[str, str]]:
    return [{"from": ("human", "gpt")[i % 2], "value": each} for i, each in enumerate(words)]


def a_llava_file(folder: Path) -> Path:
    rows = [
        {"id": "one", "image": "1.png", "conversations": turns("<image>\nWhat?", "1", "Sure?", "yes")},
        {
            "id": "many",
            "images": [f"{i}.png" for i in range(1, IMAGES + 1)],
            "conversations": turns("and ".join(["<image>"] * IMAGES), "many"),
        },
        {"id": "late", "image": "2.png", "conversations": turns("hi", "hello", "And this?\n<image>", "2")},
        {"id": "text", "conversations": turns("hi", "hello"), "system": "Be brief."},
    ]
    images = {f"images/{i}.png": picture(i) for i in range(1, IMAGES + 1)}
    return Path(a_folder(folder, {"train.json": json.dumps(rows).encode(), **images})) / "train.json"


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")


def samples_of(path: Path, encoder: Any = None, workers: int = 0) -> dict[str, ConversationSample]:
    config = WorkerConfig(0, 1, workers, global_error_handler=reraise_exception)
    dataset = get_train_dataset(str(path), task_encoder=encoder or Encoder(), worker_config=config)
    return {sample.__key__: sample for sample in islice(get_loader(dataset), 4)}


def contents_of(sample: ConversationSample) -> list[tuple[str, list[Any]]]:
    """Returns roles and items; an image is represented by its width, which is also the color of its pixels."""
    messages = []
    for message in sample.messages:
        items = []
        for item in message["content"]:
            image = item.get("image")
            if image is not None:
                assert image[0].unique().tolist() == [image.shape[-1]]
            items.append(item["text"] if image is None else image.shape[-1])
        messages.append((message["role"], items))
    return messages


EXPECTED = {
    "one": [("user", [1, "What?"]), ("assistant", ["1"]), ("user", ["Sure?"]), ("assistant", ["yes"])],
    "many": [
        ("user", [each for i in range(1, IMAGES + 1) for each in (i, "and ")][:-1]),
        ("assistant", ["many"]),
    ],
    "late": [("user", ["hi"]), ("assistant", ["hello"]), ("user", ["And this?", 2]), ("assistant", ["2"])],
    "text": [("system", ["Be brief."]), ("user", ["hi"]), ("assistant", ["hello"])],
}


@pytest.mark.parametrize("workers", [0, 2])
def test_images_of_llava_file_keep_their_position_in_messages(tmp_path: Path, workers: int) -> None:
    convert([str(a_llava_file(tmp_path / "raw"))], str(tmp_path / "out"), ConvertRequest())

    config = load_config(str(tmp_path / "out/.wdsctl/dataset.yaml"))
    assert (config.sample_type, config.field_map, config.optional) == (
        "ConversationSample",
        {"messages": "json", "images": "*"},
        ("images",),
    )
    samples = samples_of(tmp_path / "out", workers=workers)
    assert {key: contents_of(sample) for key, sample in samples.items()} == EXPECTED
    assert [image.shape[-1] for image in samples["many"].images] == list(range(1, IMAGES + 1))
    assert samples["text"].images == []
    message = samples["one"].messages[0]
    assert message["content"][0]["image"] is samples["one"].images[0]


def test_cooker_of_polylithic_conversion_builds_same_conversations(tmp_path: Path) -> None:
    convert([str(a_llava_file(tmp_path / "raw"))], str(tmp_path / "flat"), ConvertRequest())
    convert([str(tmp_path / "flat")], str(tmp_path / "out"), ConvertRequest(media=("png",), layout="polylithic"))
    spec = importlib.util.spec_from_file_location("cook_of_a_test", tmp_path / "out/cook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Cooks(Encoder):
        cookers = (Cooker(module.cook),)

    samples = samples_of(tmp_path / "out/blend.yaml", Cooks())

    assert {key: contents_of(sample) for key, sample in samples.items()} == EXPECTED


def test_batch_of_conversations_has_lists_per_sample(tmp_path: Path) -> None:
    convert([str(a_llava_file(tmp_path / "raw"))], str(tmp_path / "out"), ConvertRequest())

    (batch,) = islice(get_loader(get_train_dataset(str(tmp_path / "out"), batch_size=4, task_encoder=Encoder())), 1)

    assert sorted(len(images) for images in batch.images) == [0, 1, 1, IMAGES]
    assert sorted(len(messages) for messages in batch.messages) == [2, 3, 4, 4]


def test_prepare_detects_conversations_with_optional_images(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    seen = [{"role": "user", "content": "<image>hi"}, {"role": "assistant", "content": "hello"}]
    files = {}
    for i in range(4):
        files[f"{i}.json"] = json.dumps({"messages": seen if i % 2 else chat}).encode()
        if i % 2:
            files[f"{i}.png"] = picture(i)
    root = a_dataset(tmp_path, {"one.tar": files})

    prepare(root, None, PrepareRequest(split={"train": 1}))

    config = load_config(str(tmp_path / ".wdsctl/dataset.yaml"))
    assert (config.sample_type, config.field_map, config.optional) == (
        "ConversationSample",
        {"messages": "json", "images": "*"},
        ("images",),
    )
    assert sorted(len(sample.images) for sample in samples_of(tmp_path).values()) == [0, 0, 1, 1]
