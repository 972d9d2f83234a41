"""Train torchtitan's debug model with torchtitan 0.2: train_torchtitan.py is for newer versions.

torchrun --nproc-per-node 2 examples/integrations/train_torchtitan_0_2.py shards run
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from tiny import BATCHES_PER_STEP, SAVE_EVERY, Texts, arguments, report

if not torch.cuda.is_available():
    torch._utils._get_available_device_type = lambda: "cpu"  # noqa: SLF001 - torchtitan supposes an accelerator

from torch import distributed
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torchtitan.config import JobConfig
from torchtitan.distributed import utils as dist_utils
from torchtitan.models.llama3 import get_train_spec
from torchtitan.protocols.train_spec import register_train_spec
from torchtitan.tools.utils import NoColor
from torchtitan.train import Trainer

from wdsctl.loader.integrations.torchtitan import WdsctlDataLoader


class Losses:
    """Prints the losses, and asks no accelerator for its memory."""

    color = NoColor()
    device_memory_monitor = SimpleNamespace(
        device_name="cpu", get_peak_stats=lambda: SimpleNamespace(max_reserved_gib=0.0, max_reserved_pct=0.0)
    )

    def __init__(self, die_at: int) -> None:
        self.die_at = die_at
        self.data_loading_times: list[float] = []
        self.ntokens_since_last_log = 0

    def should_log(self, step: int) -> bool:
        return step > 0

    def log(self, step: int, global_avg_loss: float, *_: Any, **__: Any) -> None:
        report(step, global_avg_loss, self.die_at)

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
    loader = WdsctlDataLoader.Config(
        dataset_path=args.dataset, task_encoder=Texts(), options={"lanes": 12, "shuffle_buffer_size": 20}
    )
    spec = replace(
        get_train_spec(),
        build_dataloader_fn=WdsctlDataLoader.builder(loader),
        build_tokenizer_fn=None,  # the task encoder makes tokens
        build_metrics_processor_fn=lambda *_: Losses(args.die_at),
    )
    register_train_spec("texts", spec)
    config = JobConfig()
    config.model.name, config.model.flavor = "texts", "debugmodel"
    config.training.mixed_precision_param = "float32"
    config.job.dump_folder = args.folder
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
