"""Options that several commands have. The command line also uses them for commands without a Python function."""

from __future__ import annotations

from typing import Annotated

from wdsctl.core.invocation import worker_count
from wdsctl.core.options import Option
from wdsctl.core.split_rules.rule import check_seed

ROOT = Option(
    "The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these.",
    is_argument=True,
    is_path=True,
    metavar="ROOT",
)
CATALOG = Option("Folder of the catalog. [default: ROOT/.wdsctl]", metavar="DIR", is_path=True)
WAIT = Option(
    "Wait while another wdsctl process writes to the dataset. [no value: a week; default: do not wait]",
    metavar="[SECONDS]",
    min=0,
    python_help="Seconds to wait while another wdsctl process writes to the dataset.",
)
#: Of commands whose work can run on a cluster: the command line adds two options after this one.
UNIT_WORKERS = Option(
    "Number of processes. [default: the usable CPUs, at most 16; with --executor ray, the CPUs of the cluster]",
    metavar="N",
    min=1,
    parse=worker_count,
    default=None,
    python_help="Number of processes. None: the usable CPUs, at most 16.",
)
DRY_RUN = Option("Show the effect without writing anything.", short="-n")
SAMPLE_SEED = Option("Seed of --sample.", metavar="N")
SPLIT_SEED = Option("Seed of the split.", metavar="N", parse=check_seed)
SPLIT = Option("Only samples of this split.", metavar="NAME")
SHARD = Option("Only the sample in shard PATH, if a key is repeated.", metavar="PATH")

Root = Annotated[str, ROOT]
Catalog = Annotated[str | None, CATALOG]
Wait = Annotated[float, WAIT]
UnitWorkers = Annotated[int, UNIT_WORKERS]
