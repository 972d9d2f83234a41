"""Train torchtitan's debug model: killed at any moment, it resumes on any data-parallel degree.

torchrun --nproc-per-node 2 examples/integrations/train_torchtitan.py shards run
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from tiny import BATCHES_PER_STEP, SAVE_EVERY, Texts, arguments, report

if not torch.cuda.is_available():
    torch._utils._get_available_device_type = lambda: "cpu"  # noqa: SLF001 - torchtitan supposes an accelerator

from torch import distributed
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.distributed import utils as dist_utils
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.tools.utils import NoColor
from torchtitan.trainer import Trainer

from wdsctl.loader.integrations.torchtitan import WdsctlDataLoader


class Bytes(BaseTokenizer):  # type: ignore[misc] # checked without torchtitan
    """The task encoder makes tokens; torchtitan asks for a tokenizer all the same."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):  # type: ignore[misc]
        pass

    def __init__(self, config: Config, **_: Any) -> None:  # noqa: ARG002 - torchtitan passes it
        super().__init__()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode()

    def get_vocab_size(self) -> int:
        return 256


class NoMemoryMonitor:
    """torch.cpu has no statistics of its memory."""

    device_name = "cpu"

    def get_peak_stats(self) -> Any:
        return SimpleNamespace(max_reserved_gib=0.0, max_reserved_pct=0.0)


class Losses(MetricsProcessor):  # type: ignore[misc]
    """Prints the losses, and asks no accelerator for its memory."""

    @dataclass(kw_only=True, slots=True)
    class Config(MetricsProcessor.Config):  # type: ignore[misc]
        die_at: int = 0

    def __init__(self, config: Config, **_: Any) -> None:
        self.config = config
        self.data_loading_times: list[float] = []
        self.ntokens_since_last_log, self.color = 0, NoColor()
        self.device_memory_monitor = NoMemoryMonitor()

    def should_log(self, step: int) -> bool:
        return step > 0

    def log(self, step: int, global_avg_loss: float, *_: Any, **__: Any) -> None:
        report(step, global_avg_loss, self.config.die_at)

    def close(self) -> None:
        pass


def begin_the_same_on_any_number_of_ranks(model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            value = torch.empty(parameter.shape).normal_(std=0.02, generator=generator)
            if isinstance(parameter, DTensor):
                value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
            parameter.copy_(value)


def main() -> None:
    args = arguments("Train torchtitan's debug model.")
    if not torch.cuda.is_available():
        dist_utils.set_pg_timeouts = lambda **_: None  # it asks for the number of the accelerator
    config = llama3_debugmodel()
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()  # FlexAttention needs an accelerator
    config.loss = CrossEntropyLoss.Config()
    config.tokenizer = Bytes.Config()
    config.dataloader = WdsctlDataLoader.Config(
        dataset_path=args.dataset, task_encoder=Texts(), options={"lanes": 12, "shuffle_buffer_size": 20}
    )
    config.metrics = Losses.Config(die_at=args.die_at)
    config.training.mixed_precision_param = "float32"
    config.parallelism.spmd_backend = "partial_dtensor"  # the default needs a newer torch than 2.13
    config.dump_folder = args.folder
    config.training.local_batch_size, config.training.seq_len, config.training.steps = 4, 16, args.steps
    config.training.global_batch_size = 4 * BATCHES_PER_STEP
    config.checkpoint.enable, config.checkpoint.interval = True, SAVE_EVERY
    trainer = Trainer(config)
    begin_the_same_on_any_number_of_ranks(trainer.model_parts[0])
    for module in trainer.model_parts[0].modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # for gloo
    trainer.train()
    distributed.barrier()  # no rank ends while another one still communicates
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
