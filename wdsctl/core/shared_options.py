"""Options that several commands have. The command line also uses them for commands without a Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wdsctl.core.errors import UsageError
from wdsctl.core.invocation import parse_size_bytes, worker_count
from wdsctl.core.options import Option, as_tuple


def parse_format_options(option: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` texts of `-O`, each name once, or a mapping. Raises UsageError."""
    if isinstance(option, Mapping):
        return dict(option)
    pairs: dict[str, str] = {}
    for text in as_tuple(option):
        name, equals, value = str(text).partition("=")
        if not name or not equals or name in pairs:
            raise UsageError(f"{text!r}: expected -O NAME=VALUE, each name once", hint="write -O NAME=VALUE")
        pairs[name] = value
    return pairs


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
    users_default=None,
    python_help="Number of processes. None: the usable CPUs, at most 16.",
)
FROM_FORMAT = Option("Format of the source. [default: detected]", flag="--from", metavar="FORMAT")
FORMAT_OPTION = Option(
    "Option of the source's format, such as key=id (repeatable).",
    name="option",
    flag="-O",
    short="--option",
    metavar="NAME=VALUE",
    is_repeatable=True,
    parse=parse_format_options,
    users_default=(),
    python_help="Options of the source's format, such as {'key': 'id'}.",
)
SHARD_SAMPLES = Option("Maximum number of samples per shard.", metavar="N", min=1)
SHARD_SIZE = Option(
    "Maximum bytes of source data per shard. [default: 1GiB]", metavar="SIZE", parse=parse_size_bytes, parses_early=True
)
TEMPLATE = Option("Template of the shard names. Other formats replace .tar by their extension.", metavar="T")
ALLOW_SPLIT_CHANGES = Option("Let samples leave their split for another one.")
OVERWRITE = Option("Replace what another conversion wrote to DEST, once the new dataset is complete.")
DRY_RUN = Option("Show the effect without writing anything.", short="-n")
SAMPLE_SEED = Option("Seed of --sample.", metavar="N")
SPLIT = Option("Only samples of this split.", metavar="NAME")
SHARD = Option("Only the sample in shard PATH, if a key is repeated.", metavar="PATH")
