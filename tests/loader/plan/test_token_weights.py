"""Weights in tokens: what is delivered has the shares of tokens that were asked for, and the means are in the plan."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, a_dataset, a_shard, digest
from tests.loader.running import digests, saved_after, taken, through_json, tokens, training_of
from wdsctl.core.blend import Blender
from wdsctl.core.errors import CatalogError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import Loader

SHORT, LONG = 150, 90  # samples
MEANS = (Fraction(11, 2), Fraction(100))


def short(i: int) -> Parts:
    """1 to 10 tokens."""
    return {"txt": b"x" * (1 + i * 7 % 10), "other": b"."}


def long(i: int) -> Parts:
    """70 to 130 tokens."""
    return {"txt": b"x" * (70 + 30 * (i % 3)), "other": b"...."}


def with_tokens(root: Path, samples: int, parts: Any) -> str:
    path = a_dataset(root, samples, parts=parts)
    index(path, columns={"tokens": "size:txt"})
    return path


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("data")
    return with_tokens(folder / "short", SHORT, short), with_tokens(folder / "long", LONG, long)


def loader_of(blend: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return training_of(blend, rank, world, **{"lanes": 2, "batch_size": 10, **options})


def share(counts: Counter[int]) -> float:
    """Of the first source."""
    return counts[0] / sum(counts.values())


# Shares.


@pytest.mark.parametrize(("weights", "wanted"), [((1, 1), 1 / 2), ((2, 1), 2 / 3), ((1, 9), 1 / 10)])
def test_shares_of_tokens_are_the_weights(weights: tuple[int, int], wanted: float, datasets: tuple[str, str]) -> None:
    blend = Blender(list(zip(datasets, weights, strict=True)), weight_by="tokens")

    assert share(tokens(taken(loader_of(blend), 400))) == pytest.approx(wanted, rel=0.02)


def test_the_same_weights_count_samples_where_nobody_says_tokens(datasets: tuple[str, str]) -> None:
    batches = taken(loader_of(Blender([(datasets[0], 1), (datasets[1], 1)])), 100)

    counts = Counter(key[0] for batch in batches for key in batch["__restore_key__"])
    assert abs(counts[0] - counts[1]) <= 8
    assert share(tokens(batches)) < 0.1


def test_weights_in_tokens_are_weights_in_samples_through_the_mean_lengths(datasets: tuple[str, str]) -> None:
    by_tokens = loader_of(Blender([(datasets[0], 2), (datasets[1], 1)], weight_by="tokens"))
    by_samples = loader_of(Blender([(datasets[0], 2 / MEANS[0]), (datasets[1], 1 / MEANS[1])]))

    assert by_tokens.config() == by_samples.config()
    assert digests(by_tokens, 30) == digests(by_samples, 30)


def test_a_subset_counts_with_its_own_mean_and_repetitions_with_what_they_repeat(datasets: tuple[str, str]) -> None:
    subset = {"path": datasets[1], "subset": {"range": [0, 1]}}  # 70 tokens
    repeated = {
        "blend_epochized": [{"path": datasets[1], "subset": {"range": [0, 2]}, "repetitions": 1.5}]
    }  # 70 100 70
    for entry, mean in ((subset, 70), (repeated, 80)):
        by_tokens = loader_of(Blender([(datasets[0], 1), (entry, 1)], weight_by="tokens"))
        by_samples = loader_of(Blender([(datasets[0], 1 / MEANS[0]), (entry, Fraction(1, mean))]))
        assert by_tokens.config() == by_samples.config()
        assert share(tokens(taken(by_tokens, 300))) == pytest.approx(0.5, rel=0.03)


def test_every_segment_of_a_schedule_counts_tokens(datasets: tuple[str, str]) -> None:
    schedule = [{"step": 100, "weights": [1, 3]}, {"step": 300, "weights": [3, 1]}]
    loader = loader_of(Blender([(datasets[0], 1), (datasets[1], 1)], weight_by="tokens", schedule=schedule))

    segments = [taken(loader, 100), taken(loader, 200), taken(loader, 200)]

    for batches, wanted in zip(segments, (1 / 2, 1 / 4, 3 / 4), strict=True):
        assert share(tokens(batches)) == pytest.approx(wanted, rel=0.05)


# What is missing.


def blend_file(folder: Path, *paths: str) -> str:
    file = folder / "blend.yaml"
    lines = ["splits:", "  train:", "    weight_by: tokens", "    blend:", *(f"      - path: {path}" for path in paths)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def test_a_dataset_without_the_column_is_named_with_the_line_that_it_stands_in(
    tmp_path: Path, datasets: tuple[str, str]
) -> None:
    bare = a_dataset(tmp_path / "bare", 5, parts=short)
    file = blend_file(tmp_path, datasets[0], bare)

    with pytest.raises(InputError, match="weight_by: tokens needs the lengths of samples: ") as raised:
        loader_of(file).state_dict()

    assert raised.value.code == "WDS310"
    assert raised.value.where.startswith(f"{file}:6, {bare}")
    assert "has no column 'tokens'" in str(raised.value)
    assert f"wdsctl index {bare} --column tokens=" in raised.value.hint


def test_a_column_that_is_damaged_is_named_with_its_line(tmp_path: Path) -> None:
    path = with_tokens(tmp_path / "damaged", 5, short)
    (column,) = (tmp_path / "damaged" / ".wdsctl" / "columns").glob("tokens-*.bin")
    column.write_bytes(b"rubbish" * 9)
    file = blend_file(tmp_path, path)

    with pytest.raises(CatalogError, match="weight_by: tokens") as raised:
        loader_of(file).state_dict()

    assert raised.value.code == "WDS311"
    assert raised.value.where == f"{file}:5, {column}"


def test_lengths_of_0_are_refused_with_their_line(tmp_path: Path, datasets: tuple[str, str]) -> None:
    empty = with_tokens(tmp_path / "empty", 5, lambda _: {"txt": b"", "other": b"."})
    file = blend_file(tmp_path, empty, datasets[0])

    with pytest.raises(InputError, match="has no lengths above 0") as raised:
        loader_of(file).state_dict()

    assert raised.value.where == f"{file}:5, {empty}"
    assert "above 0" in raised.value.hint


def test_what_is_never_read_needs_no_column(tmp_path: Path, datasets: tuple[str, str]) -> None:
    bare = a_dataset(tmp_path / "bare", 5, parts=short)

    loader = loader_of(Blender([(datasets[0], 1), (bare, 0)], weight_by="tokens"))

    assert len(taken(loader, 3)) == 3


# The plan.


def test_a_state_goes_on_exactly_on_the_same_ranks_and_on_others(datasets: tuple[str, str]) -> None:
    blend = Blender([(datasets[0], 2), (datasets[1], 1)], weight_by="tokens")
    truth = digests(loader_of(blend), 40)
    for place in (1, 8, 21):
        state = saved_after(loader_of(blend), place)
        resumed = loader_of(blend)
        resumed.load_state_dict(state, strict=True)
        assert digests(resumed, 40 - place) == truth[place:]

        merged = {**state, "kind": "world", "rank": -1}
        ranks = [loader_of(blend, rank, 2) for rank in range(2)]
        for loader in ranks:
            loader.load_state_dict(merged, strict=True)
        streams = [iter(loader) for loader in ranks]
        found = [digest(next(stream)) for _ in range(8) for stream in streams]
        assert found == truth[place : place + 16]


def test_a_column_of_other_lengths_is_another_plan(tmp_path: Path, datasets: tuple[str, str]) -> None:
    mine = with_tokens(tmp_path / "mine", 20, long)
    blend = Blender([(datasets[0], 1), (mine, 1)], weight_by="tokens")
    loader = loader_of(blend)
    state, before = saved_after(loader, 3), loader.config()
    index(mine, columns={"tokens": "size:other"})
    other = loader_of(blend)

    with pytest.raises(StateMismatch, match="weights: ") as raised:
        loader_of(blend).load_state_dict(state)

    assert raised.value.code == "WDS501"
    assert other.config()["fingerprint"] != before["fingerprint"]
    assert other.config()["order"]["weights"] != before["order"]["weights"]


def test_a_dataset_that_grows_keeps_the_means_it_began_with(tmp_path: Path, datasets: tuple[str, str]) -> None:
    mine = with_tokens(tmp_path / "mine", 20, long)
    blend = Blender([(datasets[0], 1), (mine, 1)], weight_by="tokens")
    truth = digests(loader_of(blend), 30)
    state = through_json(saved_after(loader_of(blend), 3))
    a_shard(tmp_path / "mine" / "shard-900.tar", ((f"new-{i}", short(i)) for i in range(30)))
    index(mine, columns={"tokens": "size:txt"})

    resumed = loader_of(blend)
    resumed.load_state_dict(state, strict=True)

    assert digests(resumed, 27) == truth[3:]
    assert loader_of(blend).config()["order"]["weights"] != resumed.config()["order"]["weights"]
