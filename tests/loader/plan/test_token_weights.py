"""Weights in tokens: delivered shares of tokens match the weights, and the plan contains the mean lengths."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, a_dataset, a_shard, digest
from tests.loader.running import digests, json_round_trip, make_training_loader, save_state_after, take_batches, tokens
from wdsctl.core.blend import Blender
from wdsctl.core.errors import CatalogError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, merge_states

SHORT, LONG = 150, 90  # samples
MEANS = (Fraction(11, 2), Fraction(100))


def short(i: int) -> Parts:
    """Returns parts with 1 to 10 tokens."""
    return {"txt": b"x" * (1 + i * 7 % 10), "other": b"."}


def long(i: int) -> Parts:
    """Returns parts with 70 to 130 tokens."""
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
    return make_training_loader(blend, rank, world, **{"lanes": 2, "batch_size": 10, **options})


def share(counts: Counter[int]) -> float:
    """Returns the share of the first component."""
    return counts[0] / sum(counts.values())


# Shares.


@pytest.mark.parametrize(("weights", "expected"), [((1, 1), 1 / 2), ((2, 1), 2 / 3), ((1, 9), 1 / 10)])
def test_token_shares_match_weights(weights: tuple[int, int], expected: float, datasets: tuple[str, str]) -> None:
    blend = Blender(list(zip(datasets, weights, strict=True)), weight_by="tokens")

    assert share(tokens(take_batches(loader_of(blend), 200))) == pytest.approx(expected, rel=0.02)


def test_weights_count_samples_without_weight_by(datasets: tuple[str, str]) -> None:
    batches = take_batches(loader_of(Blender([(datasets[0], 1), (datasets[1], 1)])), 100)

    counts = Counter(key[0] for batch in batches for key in batch["__restore_key__"])
    assert abs(counts[0] - counts[1]) <= 8
    assert share(tokens(batches)) < 0.1


def test_token_weights_equal_sample_weights_divided_by_mean_length(datasets: tuple[str, str]) -> None:
    by_tokens = loader_of(Blender([(datasets[0], 2), (datasets[1], 1)], weight_by="tokens"))
    by_samples = loader_of(Blender([(datasets[0], 2 / MEANS[0]), (datasets[1], 1 / MEANS[1])]))

    assert by_tokens.config() == by_samples.config()
    assert digests(by_tokens, 30) == digests(by_samples, 30)


def test_token_weights_use_mean_length_of_subset_and_repetitions(datasets: tuple[str, str]) -> None:
    subset = {"path": datasets[1], "subset": {"range": [0, 1]}}  # 70 tokens
    repeated = {
        "blend_epochized": [{"path": datasets[1], "subset": {"range": [0, 2]}, "repetitions": 1.5}]
    }  # 70 100 70
    for entry, mean in ((subset, 70), (repeated, 80)):
        by_tokens = loader_of(Blender([(datasets[0], 1), (entry, 1)], weight_by="tokens"))
        by_samples = loader_of(Blender([(datasets[0], 1 / MEANS[0]), (entry, Fraction(1, mean))]))
        assert by_tokens.config() == by_samples.config()
        assert share(tokens(take_batches(by_tokens, 200))) == pytest.approx(0.5, rel=0.03)


def test_every_segment_of_schedule_counts_tokens(datasets: tuple[str, str]) -> None:
    schedule = [{"step": 100, "weights": [1, 3]}, {"step": 300, "weights": [3, 1]}]
    loader = loader_of(Blender([(datasets[0], 1), (datasets[1], 1)], weight_by="tokens", schedule=schedule))

    segments = [take_batches(loader, 100), take_batches(loader, 200), take_batches(loader, 200)]

    for batches, expected in zip(segments, (1 / 2, 1 / 4, 3 / 4), strict=True):
        assert share(tokens(batches)) == pytest.approx(expected, rel=0.05)


# What is missing.


def blend_file(folder: Path, *paths: str) -> str:
    file = folder / "blend.yaml"
    lines = ["splits:", "  train:", "    weight_by: tokens", "    blend:", *(f"      - path: {path}" for path in paths)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def test_missing_token_column_is_reported_with_dataset_and_line(tmp_path: Path, datasets: tuple[str, str]) -> None:
    unmeasured = a_dataset(tmp_path / "bare", 5, parts=short)
    file = blend_file(tmp_path, datasets[0], unmeasured)

    with pytest.raises(InputError, match="weight_by: tokens needs the lengths of samples: ") as raised:
        loader_of(file).state_dict()

    assert raised.value.code == "WDS310"
    assert raised.value.where.startswith(f"{file}:6, {unmeasured}")
    assert "has no column 'tokens'" in str(raised.value)
    assert f"wdsctl index {unmeasured} --column tokens=" in raised.value.hint


def test_damaged_token_column_is_reported_with_its_line(tmp_path: Path) -> None:
    path = with_tokens(tmp_path / "damaged", 5, short)
    (column,) = (tmp_path / "damaged" / ".wdsctl" / "columns").glob("tokens-*.bin")
    column.write_bytes(b"rubbish" * 9)
    file = blend_file(tmp_path, path)

    with pytest.raises(CatalogError, match="weight_by: tokens") as raised:
        loader_of(file).state_dict()

    assert raised.value.code == "WDS311"
    assert raised.value.where == f"{file}:5, {column}"


def test_lengths_of_0_are_rejected_with_their_line(tmp_path: Path, datasets: tuple[str, str]) -> None:
    empty = with_tokens(tmp_path / "empty", 5, lambda _: {"txt": b"", "other": b"."})
    file = blend_file(tmp_path, empty, datasets[0])

    with pytest.raises(InputError, match="has no lengths above 0") as raised:
        loader_of(file).state_dict()

    assert raised.value.where == f"{file}:5, {empty}"
    assert "above 0" in raised.value.hint


def test_component_of_weight_0_needs_no_token_column(tmp_path: Path, datasets: tuple[str, str]) -> None:
    unmeasured = a_dataset(tmp_path / "bare", 5, parts=short)

    loader = loader_of(Blender([(datasets[0], 1), (unmeasured, 0)], weight_by="tokens"))

    assert len(take_batches(loader, 3)) == 3


# The plan.


def test_resume_is_exact_on_same_and_other_rank_counts(datasets: tuple[str, str]) -> None:
    blend = Blender([(datasets[0], 2), (datasets[1], 1)], weight_by="tokens")
    expected = digests(loader_of(blend), 40)
    for place in (1, 8, 21):
        state = save_state_after(loader_of(blend), place)
        resumed = loader_of(blend)
        resumed.load_state_dict(state, strict=True)
        assert digests(resumed, 40 - place) == expected[place:]

        merged = merge_states([state])
        ranks = [loader_of(blend, rank, 2) for rank in range(2)]
        for loader in ranks:
            loader.load_state_dict(merged, strict=True)
        streams = [iter(loader) for loader in ranks]
        actual = [digest(next(stream)) for _ in range(8) for stream in streams]
        assert actual == expected[place : place + 16]


def test_state_rejects_changed_token_column(tmp_path: Path, datasets: tuple[str, str]) -> None:
    changing = with_tokens(tmp_path / "mine", 20, long)
    blend = Blender([(datasets[0], 1), (changing, 1)], weight_by="tokens")
    loader = loader_of(blend)
    state, before = save_state_after(loader, 3), loader.config()
    index(changing, columns={"tokens": "size:other"})
    other = loader_of(blend)

    with pytest.raises(StateMismatch, match="weights: ") as raised:
        loader_of(blend).load_state_dict(state)

    assert raised.value.code == "WDS501"
    assert other.config()["fingerprint"] != before["fingerprint"]
    assert other.config()["order"]["weights"] != before["order"]["weights"]


def test_resume_of_grown_dataset_keeps_saved_mean_lengths(tmp_path: Path, datasets: tuple[str, str]) -> None:
    changing = with_tokens(tmp_path / "mine", 20, long)
    blend = Blender([(datasets[0], 1), (changing, 1)], weight_by="tokens")
    expected = digests(loader_of(blend), 30)
    state = json_round_trip(save_state_after(loader_of(blend), 3))
    a_shard(tmp_path / "mine" / "shard-900.tar", ((f"new-{i}", short(i)) for i in range(30)))
    index(changing, columns={"tokens": "size:txt"})

    resumed = loader_of(blend)
    resumed.load_state_dict(state, strict=True)

    assert digests(resumed, 27) == expected[3:]
    assert loader_of(blend).config()["order"]["weights"] != resumed.config()["order"]["weights"]
