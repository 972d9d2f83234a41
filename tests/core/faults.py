"""Two hundred injected faults, what finds each of them, and what the loader makes of it.

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

from tests.build import a_dataset, a_scan
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import located_findings_from_json, read_checks
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.split.split import split_by_ratios
from wdsctl.core.tar_header import padded_size
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.validate import ValidateRequest, validate
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset

LEVELS: tuple[ValidationLevel, ...] = ("structure", "headers", "content", "hashes")
KINDS = ("bit flip", "truncation", "swapped members", "zeroed page", "renamed shard")
EACH = 40  # of every kind

PAGE = Path(__file__).parents[2] / "docs" / "validate.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"

_PAGE = 4096  # bytes that a disk or a kernel loses together


class Fault(NamedTuple):
    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Seen:
    """`found`: the levels with an error or a warning. `loader`: "told", "right" or "other": see `by_loader`."""

    fault: Fault
    found: frozenset[str]
    loader: str


def the_faults() -> list[Fault]:
    return [Fault(kind, seed) for kind in KINDS for seed in range(EACH)]


def sound(root: Path) -> str:
    """Four shards of eight samples: JPEG, PNG, a sound and an array, each with JSON; hashed and with facts of media."""
    rng = np.random.default_rng(5)
    shards = {
        f"{part}.tar": {
            f"{part}-{i:02d}.{name}": data
            for i in range(8)
            for name, data in ((part, made(part, rng)), ("json", b'{"caption": "number %d", "score": 0.5}' % i))
        }
        for part in ("jpg", "png", "wav", "npy")
    }
    made_at = a_dataset(root, shards)
    index(made_at, hashed=True, media=MediaRequest(selection="auto"))
    split_by_ratios(made_at, {"train": 1})
    return made_at


def made(part: str, rng: np.random.Generator) -> bytes:
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
    """Damage one shard as rot, a bad copy or a hand would. Where its size stays, its time stays, too."""
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
        data = _swapped(data, rng)
    else:
        at = rng.randrange(0, _used(data), _PAGE)
        data[at : at + _PAGE] = bytes(len(data[at : at + _PAGE]))
    Path(path).write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _used(data: bytearray) -> int:
    """Bytes before the end mark: what is behind it, no reader sees."""
    scan = a_scan(bytes(data))
    return int(scan.offsets[-1] + scan.sizes[-1])


def _swapped(data: bytearray, rng: random.Random) -> bytearray:
    """Two members in each other's place; or, every other time, two members' contents of one size."""
    scan = a_scan(bytes(data))
    spans = [(at, size) for at, size in zip(scan.part_offsets.tolist(), scan.part_sizes.tolist(), strict=True)]
    if rng.random() < 0.5:
        alike = [(i, j) for i, one in enumerate(spans) for j, two in enumerate(spans) if i < j and one[1] == two[1]]
        different = [pair for pair in alike if data_of(data, spans[pair[0]]) != data_of(data, spans[pair[1]])]
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
    """A new name; or, every other time, two shards change names."""
    folder, name = os.path.split(path)
    if rng.random() < 0.5:
        os.rename(path, f"{folder}/other-{name}")
        return
    other = rng.choice([each for each in names if each != name])
    os.rename(path, f"{folder}/x")
    os.rename(f"{folder}/{other}", path)
    os.rename(f"{folder}/x", f"{folder}/{other}")


def found_by(root: str) -> frozenset[str]:
    """The levels that find something wrong. What `validate` tells of the listing belongs to structure."""
    report = validate(root, ValidateRequest(levels=LEVELS, again=True))
    levels: set[str] = set()
    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        for (shard, level, _), check in read_checks(ledger).items():
            if os.path.exists(f"{root}/{shard}") and any(
                each.finding.severity != "note" for each in located_findings_from_json(check.findings)
            ):
                levels.add(level)
    if any(each.code == "WDS305" for each in report.findings):
        levels.add("structure")
    if any(each.code == "WDS152" for each in report.findings):
        levels.add("hashes")  # a shard that nobody has noted a hash of: it was not there under this name
    return frozenset(levels)


class Bytes(DefaultTaskEncoder):
    """Parts as they are: what is told is told by reading, not by decoding."""

    decoder = None


def delivered(root: str) -> dict[str, tuple[tuple[str, bytes], ...]]:
    """What one pass of a training is given, by key."""
    dataset = get_train_dataset(
        root, batch_size=1, repeat=False, task_encoder=Bytes(), shuffle_over_epochs_multiplier=None
    )
    given = {}
    for batch in get_loader(dataset):
        parts = {name: value[0] for name, value in batch.items() if not name.startswith("__")}
        given[batch["__key__"][0]] = tuple(sorted((name, value) for name, value in parts.items() if value is not None))
    return given


def by_loader(root: str, before: dict[str, tuple[tuple[str, bytes], ...]]) -> str:
    """What the loader does with the damaged dataset and the catalog of before.

    "told": it raises, or leaves samples out and counts them. "right": every sample is, byte for byte, what it was.
    "other": some bytes are others; that is what hashes are for.
    """
    try:
        now = delivered(root)
    except (WdsctlError, OSError):
        return "told"
    if now == before:
        return "right"
    return "told" if all(before[key] == parts for key, parts in now.items()) else "other"


def run(faults: Sequence[Fault], folder: Path) -> Iterator[Seen]:
    """Inject each into a fresh copy. Raises AssertionError where looking at a dataset changes it."""
    good = sound(folder / "good")
    before = delivered(good)
    for fault in faults:
        root = str(folder / "damaged")
        shutil.copytree(good, root)
        inject(fault, root)
        damaged = contents(root)
        seen = Seen(fault, found_by(root), by_loader(root, before))
        if contents(root) != damaged:
            raise AssertionError(f"{fault}: the data has changed")
        shutil.rmtree(root)
        yield seen


def contents(root: str) -> dict[str, bytes]:
    return {name: Path(root, name).read_bytes() for name in os.listdir(root) if name.endswith(".tar")}


def table(seen: Sequence[Seen]) -> str:
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
        mine = [each for each in seen if kind in (each.fault.kind, "all")]
        levels = [sum(level in each.found for each in mine) for level in LEVELS]
        loader = [sum(each.loader == what for each in mine) for what in ("told", "right", "other")]
        rows.append((kind, *(str(number) for number in (len(mine), *levels, *loader))))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        made_now = table(list(run(the_faults(), Path(folder))))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{made_now}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    sys.stdout.write(made_now + "\n")


if __name__ == "__main__":
    main()
