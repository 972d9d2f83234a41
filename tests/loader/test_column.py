from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import locate
from wdsctl.core.verbs.index import index
from wdsctl.loader.column import column_of, digests_of


def test_a_column_is_read_by_row_of_the_offsets_file_of_its_generation(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root, columns={"n": "tests.core.counting:number"})
    some_shards(tmp_path, 1)
    index(root, columns={"n": "tests.core.counting:number"})
    place = locate(root)

    for generation, rows in ((1, [*range(5, 15)]), (2, [*range(5, 15), *range(5)])):
        offsets = Offsets(place.offsets(generation))
        column = column_of(place, generation, "n", shards=offsets.shards)
        assert column.tolist() == rows == [int(offsets.key(row)) for row in range(offsets.samples)]


def test_a_column_that_is_not_there_or_out_of_date_is_an_error(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": "tests.core.counting:number"})
    with pytest.raises(InputError, match="it has n"):
        column_of(locate(root), 1, "tokens")
    some_shards(tmp_path, 1, first=1)
    index(root)
    with pytest.raises(CatalogError, match="generation 1, and not for 2"):
        column_of(locate(root), 2, "n")


def test_digests_tell_other_numbers_from_the_same(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"a": "size:jpg", "b": "size:txt", "c": "tests.core.counting:number"})
    digests = digests_of(locate(root), 1, ["a", "b", "c"])
    assert digests["a"] == digests["b"] != digests["c"]
