"""Loaders in the interfaces of trainers and other libraries: one module per library, imported by its users.

`dcp` has the state of a whole job, for torch.distributed.checkpoint and all trainers that keep one state; `torchdata`
a torch `IterableDataset` of batches; `megatron` the data module of Megatron-Bridge and the provider of Megatron-LM;
`lightning` a data module; `transformers` a mixin and a callback for `Trainer`; `torchtitan` a data loader with its
configuration; `webdataset` pipelines. `sources` opens the datasets that users give to these. Nothing else in wdsctl
imports this room, except for the public names of `wdsctl.loader`.
"""

from __future__ import annotations
