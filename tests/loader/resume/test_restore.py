"""`restore_sample` rebuilds a sample, a pack or a batch from its restore key alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.hooked import Draws
from tests.loader.mixed import Everything, a_blend, everything
from tests.loader.running import json_round_trip, make_training_loader, take_batches
from wdsctl.core.errors import LoaderError, SampleFailed, UsageError
from wdsctl.loader import Loader, SkipSample, get_loader
from wdsctl.loader.packing import Packing

SAMPLES = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return a_blend(tmp_path_factory.mktemp("mix"))


def loader_of(path: str, encoder: Any = None, **options: Any) -> Loader:
    return make_training_loader(path, encoder=encoder, **{"lanes": 2, **options})


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    assert digest(one) == digest(other)


@pytest.mark.parametrize("encoder", [Raw(), Draws()], ids=["bytes", "a generator that draws"])
def test_restore_sample_rebuilds_samples_in_new_loader(encoder: Raw, dataset: str) -> None:
    samples = take_batches(loader_of(dataset, encoder, batch_size=None), 150)
    loader = loader_of(dataset, encoder, batch_size=None)

    for sample in samples[::-7]:
        assert_equal(loader.restore_sample(json_round_trip(sample["__restore_key__"])), sample)


@pytest.mark.parametrize("encoder", [Raw(), Draws()], ids=["bytes", "hooks that draw"])
def test_restore_sample_rebuilds_batches(encoder: Raw, dataset: str) -> None:
    batches = take_batches(loader_of(dataset, encoder), 40)
    loader = loader_of(dataset, encoder)

    for batch in batches[::-5]:
        assert_equal(loader.restore_sample(batch["__restore_key__"]), batch)


class Halves(Raw):
    """Returns two batches for each, with the same key."""

    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {"__restore_key__": batch["__restore_key__"], "half": half}


def test_restore_sample_rejects_batch_with_ambiguous_key(dataset: str) -> None:
    (batch,) = take_batches(loader_of(dataset, Halves()), 1)

    with pytest.raises(LoaderError, match="2 batches for these samples"):
        loader_of(dataset, Halves()).restore_sample(batch["__restore_key__"])


def test_restore_sample_reports_batch_that_hooks_skip(dataset: str) -> None:
    class Skips(Raw):
        def encode_batch(self, batch: Any) -> Any:
            raise SkipSample

    (batch,) = take_batches(loader_of(dataset), 1)

    with pytest.raises(LoaderError, match="no batch for these samples"):
        loader_of(dataset, Skips()).restore_sample(batch["__restore_key__"])


def test_restore_sample_rebuilds_pack_with_random_draws(mix: Any) -> None:
    loader = get_loader(everything(mix))
    packs = list(_packs(islice(loader, 30)))
    other_loader = get_loader(everything(mix))

    for key, members, total in packs[::-3]:
        restored = other_loader.restore_sample(json_round_trip(key))
        assert key[0] == "pack"
        assert (restored["members"], restored["total"]) == (members, total)


class Letters(Raw):
    """Adds one number per letter, and copies some samples."""

    def encode_sample(self, sample: Any) -> Any:
        letters = torch.arange(len(sample["txt"]) + torch.randint(10, ()).item())
        encoded = {**sample, "letters": letters}
        return (dict(encoded, copy=copy) for copy in (0, 1)) if sample["txt"].endswith(b"7") else dict(encoded, copy=0)


@pytest.mark.parametrize("too_long", ["truncate", "split"])
def test_restore_sample_rebuilds_packs_of_pieces_and_pieces(too_long: Any, dataset: str) -> None:
    packing = Packing(length=lambda sample: len(sample["letters"]), capacity=9, window=16, too_long=too_long)
    options: dict[str, Any] = {"encoder": Letters(), "packing": packing, "batch_size": 1}
    other_loader = loader_of(dataset, **options)

    for batch in take_batches(loader_of(dataset, **options), 40):
        assert_equal(other_loader.restore_sample(json_round_trip(batch["__restore_key__"])), batch)
        (key,) = batch["__restore_key__"]
        pieces = [other_loader.restore_sample(each)["letters"].tolist() for each in key[2:]]
        assert [letter for piece in pieces for letter in piece] == batch["letters"][0].tolist()
    assert {len(each) for each in key[2:]} == {7}


def test_restore_sample_rejects_pack_key_with_invalid_members(dataset: str) -> None:
    packing = Packing(length=lambda sample: len(sample["txt"]), capacity=90)
    for key in (("pack", 0, 5), ("pack", 0, (0, 0, "x"))):
        with pytest.raises(UsageError, match="is not a restore key"):
            loader_of(dataset, Letters(), packing=packing).restore_sample(key)


def _packs(batches: Any) -> Iterator[Any]:
    for batch in batches:
        yield from zip(batch["__restore_key__"], batch["members"], batch["total"], strict=True)


def test_restore_sample_leaves_loader_and_random_generators_unchanged(dataset: str) -> None:
    loader = loader_of(dataset, Draws())
    first = take_batches(loader, 3)
    before = loader.state_dict()
    torch.manual_seed(1)
    undisturbed = float(torch.rand(1))
    torch.manual_seed(1)

    for batch in first:
        loader.restore_sample(batch["__restore_key__"])

    assert float(torch.rand(1)) == undisturbed
    assert loader.state_dict() == before
    assert loader.can_restore_sample()


@pytest.mark.parametrize(
    "key",
    [(), (5, 0, 1), ("nothing", 0), [(7, 0, 0)], (0, 0), (0, 0, 1, 0, 0), ("pack",), ("pack", 0), (0, 0, "x")],
)
def test_restore_sample_rejects_invalid_restore_keys(key: Any, dataset: str) -> None:
    with pytest.raises((UsageError, LoaderError)) as raised:
        loader_of(dataset).restore_sample(key)

    assert raised.value.hint


def test_restore_sample_rejects_missing_sample(dataset: str) -> None:
    with pytest.raises(LoaderError, match="no sample") as raised:
        loader_of(dataset).restore_sample((0, 0, 99 << 28))

    assert raised.value.code == "WDS502"


def test_restore_sample_rejects_output_that_hooks_do_not_return(dataset: str) -> None:
    sample = next(iter(loader_of(dataset, batch_size=None)))

    class Skips(Raw):
        def encode_sample(self, sample: Any) -> Any:
            raise SkipSample

    for encoder, key in ((Raw(), (*sample["__restore_key__"], 3)), (Skips(), sample["__restore_key__"])):
        with pytest.raises(LoaderError, match="return no output"):
            loader_of(dataset, encoder).restore_sample(key)


def test_restore_sample_rejects_pack_key_without_packing(dataset: str) -> None:
    with pytest.raises(LoaderError, match="does not pack"):
        loader_of(dataset).restore_sample(("pack", 0, (0, 0, 1 << 28)))


def test_restore_sample_raises_error_of_failing_hook(dataset: str) -> None:
    class Broken(Raw):
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError("broken")

    key = next(iter(loader_of(dataset, batch_size=None)))["__restore_key__"]
    with pytest.raises(SampleFailed, match="broken"):
        loader_of(dataset, Broken()).restore_sample(key)


def test_restore_sample_encodes_only_members_of_pack(tmp_path: Path) -> None:
    calls: list[str] = []

    class Counts(Everything):
        def preencode_sample(self, sample: Any) -> Any:
            calls.append(sample["__key__"])
            return super().preencode_sample(sample)

    blend = a_blend(tmp_path)
    batch = next(iter(get_loader(everything(blend))))
    key = batch["__restore_key__"][0]
    get_loader(everything(blend, task_encoder=Counts())).restore_sample(key)

    assert len(calls) == len(key) - 2
