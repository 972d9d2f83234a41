"""The example of a vision-language training: its data, the mask of its loss, and attention that respects packs."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests import children
from tests.docs.pages import ROOT, blocks
from tests.examples.loading import EXAMPLES, load_script
from wdsctl.core.dataset.config import parse_config
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import SampleDecoder, TaskEncoder, get_loader, get_val_dataset

SIDE, PATCH, IMAGE = 32, 8, 2
PATCHES = (SIDE // PATCH) ** 2
#: What the model and the encoder take from a processor of transformers.
PROCESSOR: Any = SimpleNamespace(
    image_token_id=IMAGE,
    image_processor=SimpleNamespace(crop_size={"height": SIDE, "width": SIDE}),
    patch_size=PATCH,
    tokenizer=range(50),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vlm") / "data"
    assert load_script("vlm", "make_data").main([str(folder), "--samples", "20"]) == 0
    return folder


@pytest.fixture(scope="module")
def dataset(data: Path) -> str:
    shards = str(data.parent / "shards")
    prepare(str(data / "train.json"), shards, PrepareRequest())
    return shards


def a_row(key: str, length: int, pictures: int, generator: torch.Generator) -> Any:
    """A conversation as the encoder builds it; its second half is the assistant's."""
    tokens = torch.randint(3, 50, (length,), generator=generator)
    tokens[1 : 1 + pictures * PATCHES] = IMAGE
    return load_script("vlm", "encode").Row(
        __key__=key,
        __restore_key__=(),
        tokens=tokens,
        loss_mask=torch.arange(length) >= length // 2,
        positions=torch.arange(length),
        cu_seqlens=torch.tensor([0, length], dtype=torch.int32),
        pixels=torch.randn(pictures, 3, SIDE, SIDE, generator=generator),
        keys=[key],
    )


@pytest.fixture
def rows() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [
        a_row(str(i), length, pictures, generator) for i, (length, pictures) in enumerate([(60, 1), (9, 0), (90, 2)])
    ]


@pytest.fixture
def pack(rows: list[Any]) -> Any:
    return load_script("vlm", "encode").Encoder(PROCESSOR).pack_selected_samples(rows)


def losses_of(model: Any, row: Any, cu_seqlens: torch.Tensor | None = None) -> list[torch.Tensor]:
    """The losses of the tokens of each conversation of a row."""
    logits = model(row.tokens, row.positions, row.cu_seqlens if cu_seqlens is None else cu_seqlens, row.pixels)
    losses, number = load_script("vlm", "model").token_losses(logits, row.tokens, row.loss_mask, row.cu_seqlens)
    return [losses[number == i] for i in range(len(row.keys))]


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return load_script("vlm", "model").VisionLanguageModel(PROCESSOR)


def test_make_data_is_reproducible(data: Path, tmp_path: Path) -> None:
    load_script("vlm", "make_data").main([str(tmp_path), "--samples", "20"])

    def content(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert content(tmp_path) == content(data)


def test_prepare_builds_conversations_with_images_in_place(data: Path, dataset: str) -> None:
    class Pictures(TaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(image_decode="pilrgb")

    truth = {item["id"]: item for item in json.loads((data / "train.json").read_text())}
    config = parse_config((Path(dataset) / ".wdsctl" / "dataset.yaml").read_text())

    samples = list(get_loader(get_val_dataset(dataset, split_part="train", task_encoder=Pictures())))

    assert config.sample_type == "ConversationSample"
    assert {sample.__key__ for sample in samples} == set(truth)
    assert sorted({len(sample.images) for sample in samples}) == [0, 1, 2]
    for sample in samples:
        item = truth[sample.__key__]
        first = sample.messages[0]["content"]
        assert [each["type"] for each in first] == ["image"] * len(sample.images) + ["text"]
        assert first[-1]["text"] == item["conversations"][0]["value"].removeprefix("<image>\n" * len(sample.images))


def test_pack_stores_starts_of_its_conversations(rows: list[Any], pack: Any) -> None:
    assert pack.cu_seqlens.tolist() == [0, 60, 69, 159]
    assert pack.cu_seqlens.dtype == torch.int32
    assert pack.positions.tolist() == [*range(60), *range(9), *range(90)]
    assert pack.keys == ["0", "1", "2"]
    assert len(pack.pixels) == 3


def test_conversation_in_pack_has_same_losses_as_alone(rows: list[Any], pack: Any, model: Any) -> None:
    together = losses_of(model, pack)

    for row, losses in zip(rows, together, strict=True):
        (alone,) = losses_of(model, row)
        torch.testing.assert_close(losses, alone, atol=1e-5, rtol=0)


def test_losses_differ_without_boundaries_of_conversations(rows: list[Any], pack: Any, model: Any) -> None:
    together = losses_of(model, pack, torch.tensor([0, len(pack.tokens)]))

    (alone,) = losses_of(model, rows[-1])
    assert (together[-1] - alone).abs().max() > 1e-3


def test_first_token_of_conversation_has_no_loss(pack: Any, model: Any) -> None:
    pack.loss_mask[:] = True

    assert [len(losses) for losses in losses_of(model, pack)] == [59, 8, 89]


def test_row_without_images_gives_gradients_to_vision_tower(rows: list[Any], model: Any) -> None:
    torch.cat(losses_of(model, rows[1])).sum().backward()  # type: ignore[no-untyped-call]

    assert all(parameter.grad is not None for parameter in model.parameters())


def test_loss_mask_covers_turns_of_assistant(data: Path, dataset: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install 'wdsctl[examples]'")
    load_script("vlm", "processor").main([str(data / "train.json"), str(tmp_path)])
    processor = transformers.AutoProcessor.from_pretrained(tmp_path)
    encoder = load_script("vlm", "encode").Encoder(processor)
    truth = {item["id"]: item["conversations"] for item in json.loads((data / "train.json").read_text())}

    for row in get_loader(get_val_dataset(dataset, split_part="train", task_encoder=encoder)):
        expected = "".join(f"{turn['value']}<|end|>" for turn in truth[row.keys[0]] if turn["from"] == "gpt")
        assert processor.tokenizer.decode(row.tokens[row.loss_mask]) == expected
        assert (row.tokens == processor.image_token_id).sum() == PATCHES * len(row.pixels)


def test_template_without_assistant_mask_is_refused() -> None:
    def apply_chat_template(messages: Any, **options: Any) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.arange(5)[None], "assistant_masks": torch.zeros(1, 5, dtype=torch.int64)}

    encoder = load_script("vlm", "encode").Encoder(SimpleNamespace(apply_chat_template=apply_chat_template))

    with pytest.raises(ValueError, match="generation"):
        encoder.encode_sample(SimpleNamespace(messages=[]))


def test_page_shows_code_of_example() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (EXAMPLES / "vlm").glob("*.py"))
    page_blocks = [block for block in blocks(ROOT / "docs" / "vlm.md") if block.language == "python"]

    assert page_blocks
    for block in page_blocks:
        missing = [line for line in block.text.splitlines() if line.strip() and line.strip() not in code]
        assert missing == [], str(block)


def test_models_do_not_outlive_their_process_group() -> None:
    """Where gloo frees a group with the model, torch waits for a thread that waits for Python's lock."""
    scripts = [*EXAMPLES.rglob("*.py"), ROOT / "wdsctl/core/init/templates/loop.py.txt"]
    found = 0
    for script in scripts:
        for function in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                calls = [ast.unparse(call.func) for call in ast.walk(function) if isinstance(call, ast.Call)]
                models = {"DistributedDataParallel", "ByteTrainer"} & set(calls)
                found += bool(models)
                assert not (models and "distributed.destroy_process_group" in calls), script
                assert not (models and "dist.destroy_process_group" in calls), script
    assert found >= 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_make_demo_vlm_succeeds() -> None:
    pytest.importorskip("transformers", reason="pip install 'wdsctl[examples]'")

    completed = children.run(
        [sys.executable, str(EXAMPLES / "demo_vlm.py")],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        parent="training",
    )

    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.count("yes: ") == 3
