from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_dataset
from tests.core.carried import COLUMNS, NUMBER, a_source, carry_messages, columns, media
from tests.core.conversions import convert_to
from tests.core.pictures import picture
from wdsctl.core.columns.column_file import CheckedValues, ColumnFacts, ColumnFile, find_column
from wdsctl.core.convert.carry import gather_values
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.convert.plan_file import ORIGIN_DTYPE
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.offsets.block_checksums import BlockChecksums, append_checksums


@given(st.data())
def test_gather_values_takes_values_from_origins(data: st.DataObject) -> None:
    shards = [data.draw(st.lists(st.lists(st.integers(0, 2), min_size=1), min_size=1)) for _ in range(2)]
    failures = [[data.draw(st.integers(0, 1)) for _ in some] for some in shards]
    source_values = [
        [(v, f) for values, f in zip(*pair, strict=True) for v in values] for pair in zip(shards, failures, strict=True)
    ]
    places = st.tuples(st.sampled_from([0, 1]), st.integers(0, 999)).map(
        lambda pair_of_numbers: (pair_of_numbers[0], pair_of_numbers[1] % len(source_values[pair_of_numbers[0]]))
    )
    origin_places = data.draw(st.lists(places))

    origins = np.array([(i, source, place, 0, 0) for i, (source, place) in enumerate(origin_places)], ORIGIN_DTYPE)
    values, failed = gather_values([_column(*pair) for pair in zip(shards, failures, strict=True)], origins)

    assert values.tolist() == [source_values[source][place][0] for source, place in origin_places]
    assert failed == sum(source_values[source][place] == (0, 1) for source, place in origin_places)


def _make_damage_error() -> WdsctlError:
    return WdsctlError("damaged", hint="none")


def _column(shards: list[list[int]], failures: list[int]) -> ColumnFile:
    table = [(i, len(values), failed) for i, (values, failed) in enumerate(zip(shards, failures, strict=True))]
    facts = ColumnFacts("n", "m:f", "", 1, "", failed=sum(failures))
    values = np.concatenate([np.array(v, np.int64) for v in shards])
    data = io.BytesIO(values.tobytes())
    append_checksums(data)
    return ColumnFile(
        facts,
        CheckedValues(values, BlockChecksums(data.getvalue(), _make_damage_error), 0, _make_damage_error),
        np.array(table),
        np.empty((0, 16), "u1"),
    )


def test_merged_datasets_have_columns_that_all_sources_have(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    other = a_source(tmp_path / "o", 1, first=5, columns={name: COLUMNS[name] for name in ("n", "letters", "wide")})

    report = convert_to(tmp_path / "b", source, other, on_collision="prefix", order="shuffle")

    actual = columns(tmp_path / "b")
    assert sorted(actual) == ["letters", "n", "wide"]
    assert {key: int(key.rpartition("/")[2]) for key in actual["n"]} == actual["n"]
    assert len(actual["n"]) == 16
    assert len(media(tmp_path / "b")) == 16
    assert [message.rpartition(": ")[0] for message in carry_messages(report)] == [
        f"not copied: the column {name}" for name in ("bytes", "words")
    ]
    assert (
        f"the source {other} does not have the column; `wdsctl index {tmp_path}/b --column words="
        in carry_messages(report)[1]
    )


def test_values_of_different_functions_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the file changes within a second
    script = tmp_path / "own_lengths.py"
    sources: list[str] = []
    for name, function in (("a", "own_lengths:f"), ("b", "own_lengths:f"), ("c", "size:txt")):
        script.write_text(f"def f(sample):\n    return {len(sources)}\n")
        sys.modules.pop("own_lengths", None)
        sources.append(a_source(tmp_path / name, 1, first=10 * len(sources), columns={"n": function}))
    sys.modules.pop("own_lengths", None)

    versions = convert_to(tmp_path / "x", *sources[:2])
    functions = convert_to(tmp_path / "y", *sources[1:])

    assert columns(tmp_path / "x") == columns(tmp_path / "y") == {}
    assert "different versions of own_lengths:f; `wdsctl index" in carry_messages(versions)[0]
    assert "--column n=own_lengths:f` computes it" in carry_messages(versions)[0]
    assert "with different functions: own_lengths:f, size:txt" in carry_messages(functions)[0]


def test_renamed_and_dropped_parts_decide_which_columns_are_copied(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    renamed = convert_to(tmp_path / "b", source, parts=PartRules(rename=(("txt", "caption"),)))
    dropped = convert_to(tmp_path / "c", source, parts=PartRules(drop=("txt",)))

    assert renamed.datasets[0].columns == ("bytes", "letters", "wide")
    assert columns(tmp_path / "b")["letters"] == columns(source)["letters"]
    assert media(tmp_path / "b") == media(source)
    assert find_column(locate(str(tmp_path / "b")), "letters", 1).facts.function == "chars:caption"
    assert dropped.datasets[0].columns == ("bytes", "wide")
    assert media(tmp_path / "c") == media(source)


@pytest.mark.parametrize("more", [{}, {"layout": "polylithic", "media": ("jpg",)}])
def test_skipped_samples_do_not_shift_column_values(tmp_path: Path, more: dict[str, Any]) -> None:
    source = a_source(tmp_path / "a", 2, 6, columns={"words": COLUMNS["words"]})
    broken = Path(source, "s-000.tar")
    data = broken.read_bytes()
    for n in (2, 5):
        data = data.replace(picture(16 + n, 24), b"?" * len(picture(16 + n, 24)))
    broken.write_bytes(data)
    index(source, columns={"words": COLUMNS["words"]})

    report = convert_to(tmp_path / "b", source, image=parse_image("webp"), order="shuffle", shard_samples=4, **more)

    actual = columns(tmp_path / "b" / ("primary" if more else ""))["words"]
    assert report.failed == 2
    assert actual == {f"{n:06d}": n for n in range(12) if n not in (2, 5)}


def test_failed_values_stored_as_zero_are_recomputed_in_destination(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 2, 10, columns={"n": "tests.core.counting:not_fives"}, on_error="zero")

    convert_to(tmp_path / "b", source, shard_samples=4)

    place = locate(str(tmp_path / "b"))
    column = find_column(place, "n", 1)
    assert (column.facts.zero, column.facts.failed, column.table[:, 2].tolist()) == (True, 2, [0, 1, 0, 1, 0])
    repeated = index(str(tmp_path / "b"), columns={"n": "tests.core.counting:not_fives"}, on_error="zero")
    assert repeated.columns[0].shards_read == 2


def test_outdated_column_is_not_copied(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={"n": NUMBER})
    a_dataset(tmp_path / "a", {"t.tar": {"000099.txt": b"new"}})
    index(source)

    report = convert_to(tmp_path / "b", source)

    assert columns(tmp_path / "b") == {}
    assert "was computed for generation 1, expected 2" in carry_messages(report)[0]
