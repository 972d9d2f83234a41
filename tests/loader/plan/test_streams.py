"""What a blend yields: how often each dataset and each sample is drawn, in which order, and what determines it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.build import an_image
from tests.loader.datasets import a_dataset, numbered
from tests.loader.running import digests, ids, make_training_loader, save_state_after, take_batches
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
    return make_training_loader(blend, **{"lanes": 2, "batch_size": None, **options})


def sources(loader: Loader, count: int) -> Counter[int]:
    return Counter(sample["__restore_key__"][0] for sample in islice(loader, count))


def keys(loader: Loader, count: int) -> list[str]:
    return [sample["__key__"] for sample in islice(loader, count)]


# Weights.


def test_blend_shares_match_weights(big: str, small: str) -> None:
    actual = sources(loader_of(Blender([(big, 3), (small, "1/3")])), 1000)

    assert abs(actual[1] - 100) <= 4


def test_component_of_weight_0_is_unread_and_may_be_missing(big: str) -> None:
    loader = loader_of(Blender([(big, 1), ("/nowhere/at/all", 0)]))

    assert sources(loader, 100) == {0: 100}


def test_blend_repeats_complete_passes_of_every_dataset(big: str, small: str) -> None:
    loader = loader_of(Blender([(big, 1), (small, 1)]))

    counts = Counter(ids([{"__restore_key__": [sample["__restore_key__"]]} for sample in islice(loader, 400)]))

    assert set(counts.values()) == {1}
    per_pass = Counter((source, number) for source, number, _ in counts)
    assert [per_pass[0, number] for number in range(2)] == [BIG] * 2
    assert [per_pass[1, number] for number in range(12)] == [SMALL] * 12


def test_dataset_blended_twice_gets_two_orders(big: str) -> None:
    loader = loader_of(Blender([(big, 1), (big, 1)]), lanes=1)
    orders: dict[int, list[str]] = {0: [], 1: []}
    for sample in islice(loader, 4 * BIG):
        orders[sample["__restore_key__"][0]].append(sample["__key__"])

    first, second = (order[:BIG] for order in orders.values())
    assert sorted(first) == sorted(second)
    assert first != second


def test_component_order_is_independent_of_other_components(big: str, small: str) -> None:
    def order(blend: Blender, source: int) -> list[str]:
        loader = loader_of(blend, lanes=1)
        actual = [s["__key__"] for s in islice(loader, 600) if s["__restore_key__"][0] == source]
        return actual[: 2 * SMALL]

    expected_order = order(Blender([(small, 1), ({"path": big, "subset": {"range": [0, 30]}}, 1)]), 0)

    assert order(Blender([(big, 1), (small, 1)]), 1) == expected_order


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_datasets_with_fewer_samples_than_lanes_keep_their_share(samples: int, big: str, tmp_path: Path) -> None:
    tiny = a_dataset(tmp_path, samples, parts=numbered)
    loader = loader_of(Blender([(tiny, 1), (big, 2)]), lanes=16)

    batch = list(islice(loader, 480))

    counts = Counter(sample["__restore_key__"] for sample in batch)
    assert set(counts.values()) == {1}
    assert abs(sum(source == 0 for source, *_ in counts) - 160) <= 3 * 16


def test_subflavors_identify_blend_entry_of_sample(big: str, small: str) -> None:
    blend = Blender(
        [({"path": big, "subflavors": {"of": "big"}}, 1), ({"path": small, "subflavors": {"of": "small"}}, 1)]
    )

    for sample in islice(loader_of(blend), 60):
        assert sample["__subflavors__"] == {"of": ["big", "small"][sample["__restore_key__"][0]]}


# Epochized blends.


@pytest.mark.parametrize("repetitions", [(1, 2), (0.5, 1), ("3/2", 2.25), (3, 0)])
def test_epochized_blend_pass_contains_each_sample_by_repetitions(
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
        actual = [paths[path, f"{i:06}"] for i in range(n)]
        assert actual == [int(whole) + (i < int(n * part)) for i in range(n)], "the first samples come once more"


def test_repeating_epochized_blend_completes_each_pass_before_the_next(big: str, small: str) -> None:
    blend = {"blend_epochized": [{"path": big}, {"path": small, "repetitions": 1.5}]}
    loader = loader_of(blend, lanes=1)

    passes = [Counter(sample["__restore_key__"] for sample in islice(loader, BIG + 21)) for _ in range(3)]

    sizes = [Counter(source for source, *_ in each) for each in passes]
    assert sizes == [{0: BIG, 1: 21}] * 3
    assert len(set().union(*passes)) == 3 * (BIG + 21), "a restore key is of one pass"


def test_epochized_entry_of_blend_keeps_weight_and_repetitions(big: str, small: str) -> None:
    inner = {"blend_epochized": [{"path": small, "repetitions": 2}, {"path": big, "subset": {"range": [0, 4]}}]}
    loader = loader_of(Blender([(big, 1), (inner, 1)]))

    actual = sources(loader, 640)

    assert abs(actual[0] - 320) <= 4
    assert abs(actual[1] - 280) <= 8
    assert abs(actual[2] - 40) <= 8


# Subsets.


def test_subset_contains_only_its_range_and_reports_its_length(big: str) -> None:
    blend = {"path": big, "subset": {"range": [10, 17]}}
    loader = loader_of(blend, repeat=False)

    assert sorted(keys(loader, 99)) == [f"{i:06}" for i in range(10, 17)]
    assert loader.config()["order"]["samples"] == len(loader) == 7


def test_percent_subsets_partition_the_dataset(small: str) -> None:
    halves = [
        sorted(keys(loader_of({"path": small, "subset": {"range": [low, high]}}, repeat=False), 99))
        for low, high in (("0%", "33%"), ("33%", "100%"))
    ]

    assert halves == [[f"{i:06}" for i in range(4)], [f"{i:06}" for i in range(4, SMALL)]]


def test_blend_weights_are_independent_of_subset_size(big: str, small: str) -> None:
    loader = loader_of(Blender([({"path": big, "subset": {"range": [0, 3]}}, 1), (small, 1)]))

    assert abs(sources(loader, 400)[0] - 200) <= 4


def test_empty_subset_is_rejected_with_its_location(small: str) -> None:
    loader = loader_of(Blender([({"path": small, "subset": {"range": ["0%", "1%"]}}, 1)]))

    with pytest.raises(InputError) as raised:
        loader.state_dict()

    assert raised.value.code in {"WDS211", "WDS603"}
    assert raised.value.where


# Shuffling.


def test_unshuffled_samples_keep_dataset_order(small: str) -> None:
    for options in ({"shuffle": False}, {"shuffle_over_epochs_multiplier": None}):
        assert keys(loader_of(small, lanes=1, **options), 20) == [f"{i % SMALL:06}" for i in range(20)]


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_multiplier_shuffles_that_many_passes_together(passes: int, small: str) -> None:
    loader = loader_of(small, lanes=1, shuffle_over_epochs_multiplier=passes, max_samples_per_sequence=2)

    for _ in range(2):
        counts = Counter(keys(loader, passes * SMALL))
        assert set(counts.values()) == {passes}
        assert len(counts) == SMALL
    if passes > 1:
        assert max(Counter(keys(loader, SMALL)).values()) > 1, "a pass begins before another one is over"


def test_drawing_with_replacement_repeats_some_samples(small: str) -> None:
    loader = loader_of(small, lanes=1, shuffle_over_epochs_multiplier=-1, max_samples_per_sequence=1)

    counts = Counter(keys(loader, SMALL))

    assert max(counts.values()) > 1
    assert abs(Counter(keys(loader, 100 * SMALL))["000003"] - 100) < 50


@pytest.mark.parametrize("multiplier", [-1, 1, 3, None])
def test_resume_is_exact_for_every_shuffle_multiplier(multiplier: int | None, big: str, small: str) -> None:
    def make_loader() -> Loader:
        blend = Blender([(big, 2), (small, 1)])
        return make_training_loader(blend, lanes=2, batch_size=3, shuffle_over_epochs_multiplier=multiplier)

    expected = digests(make_loader(), 60)
    for place in range(1, 50, 7):
        resumed = make_loader()
        resumed.load_state_dict(save_state_after(make_loader(), place))
        assert digests(resumed, 60 - place) == expected[place:]


# What determines the order.


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
def test_state_rejects_changed_blend(changed: Any, line: str, big: str, small: str) -> None:
    state = save_state_after(loader_of(Blender([(big, 2), (small, 1)])), 5)

    with pytest.raises(StateMismatch, match=line):
        loader_of(changed(big, small)).load_state_dict(state)


@pytest.mark.parametrize("entries", [1, 3])
def test_state_rejects_blend_with_another_number_of_datasets(entries: int, big: str, small: str) -> None:
    state = save_state_after(loader_of(Blender([(big, 2), (small, 1)])), 5)

    with pytest.raises(StateMismatch) as raised:
        loader_of(Blender([(big, 2), (small, 1), (small, 1)][:entries])).load_state_dict(state)

    assert raised.value.hint


def test_resume_accepts_equal_weights_in_another_notation(big: str, small: str) -> None:
    loader = loader_of(Blender([(big, 2), (small, 1)]))
    state = save_state_after(loader, 5)
    resumed = loader_of({"blend": [{"path": big, "weight": 0.5}, {"path": small, "weight": "1/4"}]})

    resumed.load_state_dict(state, strict=True)

    assert keys(resumed, 40) == keys(loader, 40)


def test_blend_with_all_weights_0_is_rejected(big: str) -> None:
    with pytest.raises(DatasetError, match="all weights are 0") as raised:
        loader_of(Blender([(big, 0)])).state_dict()

    assert raised.value.code == "WDS602"


def test_weighted_blend_rejects_repeat_false(big: str, small: str) -> None:
    with pytest.raises(UsageError, match="repeat"):
        loader_of(Blender([(big, 1), (small, 1)]), repeat=False).state_dict()


def test_validation_of_blend_reads_datasets_one_after_another(big: str, small: str) -> None:
    blend = Blender([(small, 5), ({"path": big, "subset": {"range": [0, 3]}}, 1)])
    loader = get_loader(get_val_dataset(blend, split_part="train", batch_size=4))

    actual = [key[::2] for key in ids(take_batches(loader, 99))]

    assert [source for source, _ in actual] == [0] * SMALL + [1] * 3
    assert len(loader) == 5


def translated(i: int) -> dict[str, bytes]:
    """A text, and a second one that no field of a TextSample uses."""
    return {**numbered(i), "fr.txt": b"un texte"}


TEXTS: dict[str, Any] = {"sample_type": "TextSample", "field_map": {"text": "txt"}}


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Texts, each with a text and a `json` part that no field uses."""
    return a_dataset(tmp_path_factory.mktemp("captioned"), 20, parts=translated, **TEXTS)


def unused_part_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "WDS519" in message]


def test_loader_warns_once_about_parts_no_field_uses(captioned: str, caplog: pytest.LogCaptureFixture) -> None:
    with get_loader(get_train_dataset(captioned, batch_size=4)) as loader:
        assert unused_part_warnings(caplog) == []
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()

        (warning,) = unused_part_warnings(caplog)
        assert f"because no field uses them: fr.txt of {captioned} (TextSample); " in warning
        loader.load_state_dict(state)
        next(iter(loader))
    assert len(unused_part_warnings(caplog)) == 1


@pytest.mark.parametrize("options", [{"worker_config": WorkerConfig(1, 2)}, {"crude": True}])
def test_other_ranks_and_crude_loaders_ignore_unused_parts(
    options: dict[str, Any], captioned: str, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset(captioned, batch_size=4, worker_config=options.get("worker_config"))
    open_blend(replace(dataset, crude=options.get("crude", False)))

    assert unused_part_warnings(caplog) == []


@pytest.mark.parametrize(
    ("sample_type", "is_warned"), [("ImageSample", True), ("CaptioningSample", False)], ids=["media", "media and text"]
)
def test_loader_warns_about_unused_json_only_if_fields_are_media(
    sample_type: str, is_warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """JSON beside a text or a label often records only the origin of a sample."""
    picture = an_image("jpeg")
    parts = {"jpg": picture, "json": b'{"source": "x"}', **({} if is_warned else {"txt": b"a cat"})}
    path = a_dataset(tmp_path / "a", 5, parts=lambda _: parts, sample_type=sample_type)

    open_blend(get_train_dataset(path))

    assert [f"json of {path} ({sample_type})" in warning for warning in unused_part_warnings(caplog)] == [
        True
    ] * is_warned


def test_unused_parts_warning_names_at_most_three_datasets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = [a_dataset(tmp_path / str(n), 5, parts=translated, **TEXTS) for n in range(5)]
    open_blend(get_train_dataset(Blender([(path, 1) for path in (*paths, paths[0])])))

    (warning,) = unused_part_warnings(caplog)
    assert [path in warning for path in paths] == [True, True, True, False, False]
    assert "and of 2 more datasets" in warning
