"""Catalogs with mutated values and bytes: every command ends soon, with a result or an error code.

Each seed is one catalog. The seeds listed one by one caused a traceback in the past.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, split_by_ratios
from tests.cli.conftest import one_processor
from tests.core.dumps import catalog_of
from wdsctl.cli.main import main
from wdsctl.core.errors import WdsctlError
from wdsctl.core.index.index import index
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.loader import Loader

__all__ = ["one_processor"]

Mutate = Callable[[Path, int], None]

pytestmark = [pytest.mark.timeout(200), pytest.mark.usefixtures("one_processor")]

VALUES = (
    None,
    -1,
    0,
    1,
    2**63 - 1,
    -(2**63),
    2**40,
    "x",
    "",
    "../../etc",
    "a\nb",
    b"",
    b"\xff" * 3,
    1.5,
    float("inf"),
    "[]",
    "{}",
    "[[0,0,-1]]",
    "[[9,0,1]]",
    '{"a":1}',
    "null",
    "1e999",
    "-5",
    b"\0" * 5,
    '[[0,"a",1]]',
    "[[" * 2000,
    "é\x1b[2J",
    "9" * 30,
)
VALUE_SEEDS = (0, 9, 12, 17, 20, 30, 35, 63, 82, 83, 84, 105, 119, 132, 147, 152, 237, 238, 395, *range(1000, 1003))
BYTE_SEEDS = range(8)
MORE_VALUE_SEEDS = range(1003, 1010)
MORE_BYTE_SEEDS = range(8, 30)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "data"
    a_dataset(root, {f"s{i}.tar": samples(i * 8, 8, "bin", "txt") for i in range(3)})
    index(str(root))
    split_by_ratios(str(root), {"train": 2, "val": 1}, by="sample")
    index(str(root), columns={"n": "size:bin"})
    return root


def mutate_values(path: Path, seed: int) -> None:
    """Set one or two values to another kind, in one row or in all."""
    rng = random.Random(seed)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        sizes = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
        for _ in range(rng.choice([1, 1, 2])):
            table = rng.choice([name for name in names if sizes[name]])
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            column, value = rng.choice(columns), rng.choice(VALUES)
            row = ""
            if rng.random() >= 0.5:
                row = f'WHERE "{columns[0]}" = (SELECT "{columns[0]}" FROM {table} LIMIT 1 OFFSET '
                row += f"{rng.randrange(sizes[table])})"
            try:
                connection.execute(f'UPDATE {table} SET "{column}" = ? {row}', (value,))
            except sqlite3.IntegrityError:
                continue


def mutate_bytes(path: Path, seed: int) -> None:
    """Change one to sixteen bytes, mostly where the file is not zero."""
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    full = [i for i, byte in enumerate(data) if byte]
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.choice(full) if rng.random() < 0.7 else rng.randrange(len(data))
        data[at] = rng.choice([0, 1, 255, 127, 128, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [
        *((mutate_values, seed) for seed in VALUE_SEEDS),
        *((mutate_bytes, seed) for seed in BYTE_SEEDS),
        *(pytest.param(mutate_values, seed, marks=pytest.mark.slow) for seed in MORE_VALUE_SEEDS),
        *(pytest.param(mutate_bytes, seed, marks=pytest.mark.slow) for seed in MORE_BYTE_SEEDS),
    ],
)
def test_commands_on_mutated_catalog_end_without_traceback(
    intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mutate: Mutate, seed: int
) -> None:
    root = tmp_path / "data"
    shutil.copytree(intact, root)
    path = catalog_of(root)
    mutate(path, seed)
    mutated = path.read_bytes()
    for command in (
        ("inspect", root),
        ("ls", root),
        ("get", root, "000003.txt"),
        ("sql", root, "SELECT * FROM v_part", "--timeout", "20"),
        ("catalog", "check", root),
        ("validate", root),
        ("split", root, "train=1,val=1"),
        ("index", root),
    ):
        path.write_bytes(mutated)
        main([str(word) for word in command])
        errors = capsys.readouterr().err
        assert "Traceback" not in errors, (command, errors[-2000:])
    path.write_bytes(mutated)
    with suppress(WdsctlError), _loader(str(root)) as loader:
        for _ in loader:
            pass


def _loader(root: str) -> Loader:
    return get_loader(get_train_dataset(root, batch_size=4, shuffle=False, repeat=False))
