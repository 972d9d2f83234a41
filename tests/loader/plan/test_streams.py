"""What a blend hands out: how often each dataset and each sample comes, in which order, and what decides it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, numbered
from tests.loader.running import digests, ids, saved_after, taken, training_of
from wdsctl.core.blend import Blender
from wdsctl.core.errors import DatasetError, InputError, StateMismatch, UsageError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.plan.open_blend import open_blend

BIG, SMALL = 60, 14


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("big"), BIG, shard_samples=25, parts=numbered)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("small"), SMALL, shard_samples=5, parts=numbered)


def loader_of(blend: Any, **options: Any) -> Loader:
    return training_of(blend, **{"lanes": 2, "batch_size": None, **options})


def sources(loader: Loader, count: int) -> Counter[int]:
    return Counter(sample["__restore_key__"][0] for sample in islice(loader, count))


def keys(loader: Loader, count: int) -> list[str]:
    return [sample["__key__"] for sample in islice(loader, count)]


# Weights.


def test_shares_are_the_weights(big: str, small: str) -> None:
    found = sources(loader_of(Blender([(big, 3), (small, "1/3")])), 1000)

    assert abs(found[1] - 100) <= 4


def test_what_has_the_weight_0_never_comes_and_need_not_exist(big: str) -> None:
    loader = loader_of(Blender([(big, 1), ("/nowhere/at/all", 0)]))

    assert sources(loader, 100) == {0: 100}


def test_every_dataset_of_a_blend_comes_whole_again_and_again(big: str, small: str) -> None:
    loader = loader_of(Blender([(big, 1), (small, 1)]))

    counts = Counter(ids([{"__restore_key__": [sample["__restore_key__"]]} for sample in islice(loader, 400)]))

    assert set(counts.values()) == {1}
    per_pass = Counter((source, number) for source, number, _ in counts)
    assert [per_pass[0, number] for number in range(2)] == [BIG] * 2
    assert [per_pass[1, number] for number in range(12)] == [SMALL] * 12


def test_the_same_dataset_twice_comes_in_two_orders(big: str) -> None:
    loader = loader_of(Blender([(big, 1), (big, 1)]), lanes=1)
    orders: dict[int, list[str]] = {0: [], 1: []}
    for sample in islice(loader, 4 * BIG):
        orders[sample["__restore_key__"][0]].append(sample["__key__"])

    first, second = (order[:BIG] for order in orders.values())
    assert sorted(first) == sorted(second)
    assert first != second


def test_another_dataset_in_the_blend_leaves_the_orders_of_the_others_alone(big: str, small: str) -> None:
    def order(blend: Blender, source: int) -> list[str]:
        loader = loader_of(blend, lanes=1)
        found = [s["__key__"] for s in islice(loader, 600) if s["__restore_key__"][0] == source]
        return found[: 2 * SMALL]

    alone = order(Blender([(small, 1), ({"path": big, "subset": {"range": [0, 30]}}, 1)]), 0)

    assert order(Blender([(big, 1), (small, 1)]), 1) == alone


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_datasets_of_fewer_samples_than_lanes_run_on(samples: int, big: str, tmp_path: Path) -> None:
    tiny = a_dataset(tmp_path, samples, parts=numbered)
    loader = loader_of(Blender([(tiny, 1), (big, 2)]), lanes=16)

    batch = list(islice(loader, 480))

    counts = Counter(sample["__restore_key__"] for sample in batch)
    assert set(counts.values()) == {1}
    assert abs(sum(source == 0 for source, *_ in counts) - 160) <= 3 * 16


def test_subflavors_say_which_entry_a_sample_is_of(big: str, small: str) -> None:
    blend = Blender(
        [({"path": big, "subflavors": {"of": "big"}}, 1), ({"path": small, "subflavors": {"of": "small"}}, 1)]
    )

    for sample in islice(loader_of(blend), 60):
        assert sample["__subflavors__"] == {"of": ["big", "small"][sample["__restore_key__"][0]]}


# Epochized blends.


@pytest.mark.parametrize("repetitions", [(1, 2), (0.5, 1), ("3/2", 2.25), (3, 0)])
def test_a_pass_of_an_epochized_blend_has_each_sample_so_many_times(
    repetitions: tuple[Any, Any], big: str, small: str
) -> None:
    from fractions import Fraction

    blend = {
        "blend_epochized": [
            {"path": path, "repetitions": times} for path, times in zip((big, small), repetitions, strict=True)
        ]
    }
    times = [Fraction(str(each)) for each in repetitions]
    expected = [int(n * each) for n, each in zip((BIG, SMALL), times, strict=True)]
    loader = loader_of(blend, lanes=1, repeat=False)

    samples = list(loader)

    assert len(samples) == len(loader) == sum(expected)
    assert len({sample["__restore_key__"] for sample in samples}) == len(samples)
    paths = Counter((sample["__sources__"][0].dataset_path, sample["__key__"]) for sample in samples)
    for path, n, each in zip((big, small), (BIG, SMALL), times, strict=True):
        whole, part = divmod(each, 1)
        found = [paths[path, f"{i:06}"] for i in range(n)]
        assert found == [int(whole) + (i < int(n * part)) for i in range(n)], "the first samples come once more"


def test_an_epochized_blend_that_goes_on_begins_the_next_pass_when_one_is_over(big: str, small: str) -> None:
    blend = {"blend_epochized": [{"path": big}, {"path": small, "repetitions": 1.5}]}
    loader = loader_of(blend, lanes=1)

    passes = [Counter(sample["__restore_key__"] for sample in islice(loader, BIG + 21)) for _ in range(3)]

    sizes = [Counter(source for source, *_ in each) for each in passes]
    assert sizes == [{0: BIG, 1: 21}] * 3
    assert len(set().union(*passes)) == 3 * (BIG + 21), "a restore key is of one pass"


def test_a_blend_with_an_epochized_entry_keeps_both_rules(big: str, small: str) -> None:
    inner = {"blend_epochized": [{"path": small, "repetitions": 2}, {"path": big, "subset": {"range": [0, 4]}}]}
    loader = loader_of(Blender([(big, 1), (inner, 1)]))

    found = sources(loader, 640)

    assert abs(found[0] - 320) <= 4
    assert abs(found[1] - 280) <= 8
    assert abs(found[2] - 40) <= 8


# Subsets.


def test_a_subset_has_its_neighbours_and_its_length(big: str) -> None:
    blend = {"path": big, "subset": {"range": [10, 17]}}
    loader = loader_of(blend, repeat=False)

    assert sorted(keys(loader, 99)) == [f"{i:06}" for i in range(10, 17)]
    assert loader.config()["order"]["samples"] == len(loader) == 7


def test_halves_in_percent_share_no_sample_and_leave_none_out(small: str) -> None:
    halves = [
        sorted(keys(loader_of({"path": small, "subset": {"range": [low, high]}}, repeat=False), 99))
        for low, high in (("0%", "33%"), ("33%", "100%"))
    ]

    assert halves == [[f"{i:06}" for i in range(4)], [f"{i:06}" for i in range(4, SMALL)]]


def test_weights_do_not_depend_on_the_size_of_a_subset(big: str, small: str) -> None:
    loader = loader_of(Blender([({"path": big, "subset": {"range": [0, 3]}}, 1), (small, 1)]))

    assert abs(sources(loader, 400)[0] - 200) <= 4


def test_a_subset_that_is_empty_is_refused_by_the_line_it_stands_in(small: str) -> None:
    loader = loader_of(Blender([({"path": small, "subset": {"range": ["0%", "1%"]}}, 1)]))

    with pytest.raises(InputError) as raised:
        loader.state_dict()

    assert raised.value.code in {"WDS211", "WDS603"}
    assert raised.value.where


# Shuffling.


def test_without_shuffling_samples_come_as_they_lie(small: str) -> None:
    for options in ({"shuffle": False}, {"shuffle_over_epochs_multiplier": None}):
        assert keys(loader_of(small, lanes=1, **options), 20) == [f"{i % SMALL:06}" for i in range(20)]


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_so_many_passes_are_shuffled_together(passes: int, small: str) -> None:
    loader = loader_of(small, lanes=1, shuffle_over_epochs_multiplier=passes, max_samples_per_sequence=2)

    for _ in range(2):
        counts = Counter(keys(loader, passes * SMALL))
        assert set(counts.values()) == {passes}
        assert len(counts) == SMALL
    if passes > 1:
        assert max(Counter(keys(loader, SMALL)).values()) > 1, "a pass begins before another one is over"


def test_drawing_with_replacement_repeats_some_and_misses_others(small: str) -> None:
    loader = loader_of(small, lanes=1, shuffle_over_epochs_multiplier=-1, max_samples_per_sequence=1)

    counts = Counter(keys(loader, SMALL))

    assert max(counts.values()) > 1
    assert abs(Counter(keys(loader, 100 * SMALL))["000003"] - 100) < 50


@pytest.mark.parametrize("multiplier", [-1, 1, 3, None])
def test_a_state_goes_on_whatever_the_shuffling(multiplier: int | None, big: str, small: str) -> None:
    def fresh() -> Loader:
        blend = Blender([(big, 2), (small, 1)])
        return training_of(blend, lanes=2, batch_size=3, shuffle_over_epochs_multiplier=multiplier)

    truth = digests(fresh(), 60)
    for place in range(1, 50, 7):
        resumed = fresh()
        resumed.load_state_dict(saved_after(fresh(), place))
        assert digests(resumed, 60 - place) == truth[place:]


# What decides the order.


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (lambda big, small: Blender([(big, 3), (small, 1)]), "weights: "),
        (lambda big, small: Blender([(small, 1), (big, 2)]), "sources: 2 of 2 differ"),
        (lambda big, small: Blender([(big, 2), ({"path": small, "subset": {"range": [0, 9]}}, 1)]), "sources: 1 of 2"),
        (lambda big, _: Blender([(big, 2), (big, 1)]), "sources: 1 of 2"),
    ],
    ids=["weights", "order of the entries", "subset", "another dataset"],
)
def test_another_blend_is_refused(changed: Any, line: str, big: str, small: str) -> None:
    state = saved_after(loader_of(Blender([(big, 2), (small, 1)])), 5)

    with pytest.raises(StateMismatch, match=line):
        loader_of(changed(big, small)).load_state_dict(state)


@pytest.mark.parametrize("entries", [1, 3])
def test_a_blend_of_another_number_of_datasets_is_refused(entries: int, big: str, small: str) -> None:
    state = saved_after(loader_of(Blender([(big, 2), (small, 1)])), 5)

    with pytest.raises(StateMismatch) as raised:
        loader_of(Blender([(big, 2), (small, 1), (small, 1)][:entries])).load_state_dict(state)

    assert raised.value.hint


def test_what_the_same_weights_are_written_like_does_not_matter(big: str, small: str) -> None:
    loader = loader_of(Blender([(big, 2), (small, 1)]))
    state = saved_after(loader, 5)
    resumed = loader_of({"blend": [{"path": big, "weight": 0.5}, {"path": small, "weight": "1/4"}]})

    resumed.load_state_dict(state, strict=True)

    assert keys(resumed, 40) == keys(loader, 40)


def test_a_blend_without_weights_is_refused(big: str) -> None:
    with pytest.raises(DatasetError, match="all weights are 0") as raised:
        loader_of(Blender([(big, 0)])).state_dict()

    assert raised.value.code == "WDS602"


def test_one_pass_of_a_blend_by_weight_is_refused(big: str, small: str) -> None:
    with pytest.raises(UsageError, match="repeat"):
        loader_of(Blender([(big, 1), (small, 1)]), repeat=False).state_dict()


def test_a_validation_of_a_blend_has_all_datasets_one_after_the_other(big: str, small: str) -> None:
    blend = Blender([(small, 5), ({"path": big, "subset": {"range": [0, 3]}}, 1)])
    loader = get_loader(get_val_dataset(blend, split_part="train", batch_size=4))

    found = [key[::2] for key in ids(taken(loader, 99))]

    assert [source for source, _ in found] == [0] * SMALL + [1] * 3
    assert len(loader) == 5


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Texts, with a `json` beside them that no field takes."""
    return a_dataset(tmp_path_factory.mktemp("captioned"), 20, sample_type="TextSample")


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "WDS519" in message]


def test_opening_a_loader_says_once_which_parts_no_field_takes(
    captioned: str, caplog: pytest.LogCaptureFixture
) -> None:
    with get_loader(get_train_dataset(captioned, batch_size=4)) as loader:
        assert told_of(caplog) == []
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()

        (told,) = told_of(caplog)
        assert f"because no field uses them: json of {captioned} (TextSample); " in told
        loader.load_state_dict(state)
        next(iter(loader))
    assert len(told_of(caplog)) == 1


@pytest.mark.parametrize("options", [{"worker_config": WorkerConfig(1, 2)}, {"crude": True}])
def test_other_ranks_and_readers_of_all_parts_say_nothing_of_unused_ones(
    options: dict[str, Any], captioned: str, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset(captioned, batch_size=4, worker_config=options.get("worker_config"))
    open_blend(replace(dataset, crude=options.get("crude", False)))

    assert told_of(caplog) == []


def test_of_many_datasets_with_unused_parts_a_few_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = [a_dataset(tmp_path / str(n), 5, sample_type="TextSample") for n in range(5)]
    open_blend(get_train_dataset(Blender([(path, 1) for path in (*paths, paths[0])])))

    (told,) = told_of(caplog)
    assert [path in told for path in paths] == [True, True, True, False, False]
    assert "and of 2 more datasets" in told
