"""Two hundred injected faults, which levels find each of them, and how the loader treats them.

`python -m tests.core.faults` writes the table into docs/validate.md; a slow test compares the two.
"""

from __future__ import annotations

import io
import logging
import os
import random
import shutil
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tests.build import a_dataset, a_scan, split_by_ratios
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import located_findings_from_json, read_checks
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.tar_header import padded_size
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.validate import ValidateRequest, validate
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset

LEVELS: tuple[ValidationLevel, ...] = ("structure", "headers", "content", "hashes")
KINDS = ("bit flip", "truncation", "swapped members", "zeroed page", "renamed shard")
EACH = 40  # faults of every kind

PAGE = Path(__file__).parents[2] / "docs" / "validate.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"

_PAGE = 4096  # bytes that a disk or a kernel loses at once


class Fault(NamedTuple):
    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """`found`: the levels with an error or a warning. `loader`: "told", "right" or "other": see `classify_loading`."""

    fault: Fault
    found: frozenset[str]
    loader: str


def injected_faults() -> list[Fault]:
    return [Fault(kind, seed) for kind in KINDS for seed in range(EACH)]


def make_intact_dataset(root: Path) -> str:
    """Four shards of eight samples: JPEG, PNG, audio and arrays, each with JSON; with hashes and media facts."""
    rng = np.random.default_rng(5)
    shards = {
        f"{part}.tar": {
            f"{part}-{i:02d}.{name}": data
            for i in range(8)
            for name, data in ((part, make_part(part, rng)), ("json", b'{"caption": "number %d", "score": 0.5}' % i))
        }
        for part in ("jpg", "png", "wav", "npy")
    }
    dataset_root = a_dataset(root, shards)
    index(dataset_root, hashed=True, media=MediaRequest(selection="auto"))
    split_by_ratios(dataset_root, {"train": 1})
    return dataset_root


def make_part(part: str, rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    if part in ("jpg", "png"):
        picture = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)).resize((96, 72))
        picture.save(file, "JPEG" if part == "jpg" else "PNG")
    elif part == "npy":
        np.save(file, rng.standard_normal((32, 16)))
    else:
        with wave.open(file, "wb") as out:
            out.setparams((1, 2, 8000, 0, "NONE", ""))
            out.writeframes(rng.integers(-9000, 9000, 1500, dtype=np.int16).tobytes())
    return file.getvalue()


def inject(fault: Fault, root: str) -> None:
    """Damages one shard like bit rot, a bad copy or a user; the modification time of the file stays the same."""
    rng = random.Random(f"{fault.kind} {fault.seed}")
    names = sorted(name for name in os.listdir(root) if name.endswith(".tar"))
    path = f"{root}/{rng.choice(names)}"
    if fault.kind == "renamed shard":
        _rename(path, names, rng)
        return
    stat = os.stat(path)
    data = bytearray(Path(path).read_bytes())
    if fault.kind == "bit flip":
        data[rng.randrange(_used(data))] ^= 1 << rng.randrange(8)
    elif fault.kind == "truncation":
        del data[rng.randrange(1, _used(data)) :]
    elif fault.kind == "swapped members":
        data = _swap_members(data, rng)
    else:
        at = rng.randrange(0, _used(data), _PAGE)
        data[at : at + _PAGE] = bytes(len(data[at : at + _PAGE]))
    Path(path).write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _used(data: bytearray) -> int:
    """The number of bytes before the end mark; no reader reads what follows."""
    scan = a_scan(bytes(data))
    return int(scan.offsets[-1] + scan.sizes[-1])


def _swap_members(data: bytearray, rng: random.Random) -> bytearray:
    """Swaps two members; or, every other time, the contents of two members of one size."""
    scan = a_scan(bytes(data))
    spans = [(at, size) for at, size in zip(scan.part_offsets.tolist(), scan.part_sizes.tolist(), strict=True)]
    if rng.random() < 0.5:
        equal_sizes = [
            (i, j) for i, one in enumerate(spans) for j, two in enumerate(spans) if i < j and one[1] == two[1]
        ]
        different = [pair for pair in equal_sizes if data_of(data, spans[pair[0]]) != data_of(data, spans[pair[1]])]
        if different:
            one, two = (spans[i] for i in rng.choice(different))
            first, second = data_of(data, one), data_of(data, two)
            data[one[0] : sum(one)], data[two[0] : sum(two)] = second, first
            return data
    i, j = sorted(rng.sample(range(len(spans)), 2))
    pieces = [bytes(data[at - 512 : at + padded_size(size)]) for at, size in spans]
    pieces[i], pieces[j] = pieces[j], pieces[i]
    return bytearray(b"".join(pieces) + bytes(data[_used(data) :]))


def data_of(data: bytearray, span: tuple[int, int]) -> bytes:
    return bytes(data[span[0] : sum(span)])


def _rename(path: str, names: Sequence[str], rng: random.Random) -> None:
    """Renames the shard; or, every other time, swaps the names of two shards."""
    folder, name = os.path.split(path)
    if rng.random() < 0.5:
        os.rename(path, f"{folder}/other-{name}")
        return
    other = rng.choice([each for each in names if each != name])
    os.rename(path, f"{folder}/x")
    os.rename(f"{folder}/{other}", path)
    os.rename(f"{folder}/x", f"{folder}/{other}")


def find_levels(root: str) -> frozenset[str]:
    """The levels that find something wrong. Findings of `validate` about the listing count as structure."""
    report = validate(root, ValidateRequest(levels=LEVELS, again=True))
    levels: set[str] = set()
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        for (shard, level, _), check in read_checks(ledger).items():
            if os.path.exists(f"{root}/{shard}") and any(
                each.finding.severity != "note" for each in located_findings_from_json(check.findings)
            ):
                levels.add(level)
    if any(each.code == "WDS305" for each in report.findings):
        levels.add("structure")
    if any(each.code == "WDS152" for each in report.findings):
        levels.add("hashes")  # a shard without a recorded hash: it had another name
    return frozenset(levels)


class RawBytesEncoder(DefaultTaskEncoder):
    """Returns parts undecoded, so that faults are reported by reading and not by decoding."""

    decoder = None


def load_samples(root: str) -> dict[str, tuple[tuple[str, bytes], ...]]:
    """The samples of one pass of a training dataset, by key."""
    dataset = get_train_dataset(
        root, batch_size=1, repeat=False, task_encoder=RawBytesEncoder(), shuffle_over_epochs_multiplier=None
    )
    loaded = {}
    for batch in get_loader(dataset):
        parts = {name: value[0] for name, value in batch.items() if not name.startswith("__")}
        loaded[batch["__key__"][0]] = tuple(sorted((name, value) for name, value in parts.items() if value is not None))
    return loaded


def classify_loading(root: str, before: dict[str, tuple[tuple[str, bytes], ...]]) -> str:
    """How the loader reads the damaged dataset with the catalog of the intact one.

    "told": it raises, or skips samples and counts them. "right": every sample has its original bytes.
    "other": some bytes differ, which only hashes detect.
    """
    try:
        current = load_samples(root)
    except (WdsctlError, OSError):
        return "told"
    if current == before:
        return "right"
    return "told" if all(before[key] == parts for key, parts in current.items()) else "other"


def run(faults: Sequence[Fault], folder: Path) -> Iterator[FaultOutcome]:
    """Injects each fault into a fresh copy. Raises AssertionError if reading a dataset changes it."""
    intact = make_intact_dataset(folder / "good")
    before = load_samples(intact)
    for fault in faults:
        root = str(folder / "damaged")
        shutil.copytree(intact, root)
        inject(fault, root)
        damaged = read_shards(root)
        seen = FaultOutcome(fault, find_levels(root), classify_loading(root, before))
        if read_shards(root) != damaged:
            raise AssertionError(f"{fault}: the data has changed")
        shutil.rmtree(root)
        yield seen


def read_shards(root: str) -> dict[str, bytes]:
    return {name: Path(root, name).read_bytes() for name in os.listdir(root) if name.endswith(".tar")}


def table(seen: Sequence[FaultOutcome]) -> str:
    """The table of docs/validate.md."""
    head = (
        "fault",
        "injected",
        *(f"`{level}`" for level in LEVELS),
        "loader tells",
        "loader: right bytes",
        "other bytes",
    )
    rows = [head, tuple("---" for _ in head)]
    for kind in (*KINDS, "all"):
        selected = [each for each in seen if kind in (each.fault.kind, "all")]
        levels = [sum(level in each.found for each in selected) for level in LEVELS]
        loader = [
            sum(each.loader == loading_class for each in selected) for loading_class in ("told", "right", "other")
        ]
        rows.append((kind, *(str(number) for number in (len(selected), *levels, *loader))))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        new_table = table(list(run(injected_faults(), Path(folder))))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{new_table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    sys.stdout.write(new_table + "\n")


if __name__ == "__main__":
    main()
