"""Failures are reported, counted and skipped; too many in a row, or a fatal error, stop the run."""

from __future__ import annotations

import logging
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.pipeline.fake_stages import failures_of
from tests.loader.running import (
    Packs,
    digests,
    ids,
    json_round_trip,
    make_training_loader,
    raising_worker_config,
    save_state_after,
    take_batches,
)
from wdsctl.core.errors import InputError, PermissionDenied, SampleFailed, StorageDown, StorageError
from wdsctl.loader import (
    CaptioningSample,
    Loader,
    SkipSample,
    WorkerConfig,
    get_loader,
    get_val_dataset,
    stateless,
)
from wdsctl.loader.runtime.failures import FATAL_ERRORS, FatalSampleError, reraise_exception
from wdsctl.loader.runtime.sample_fields import describe_sample_location, describe_samples, get_field, set_field

SAMPLES = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


class Tenth(Raw):
    """Fails at every tenth sample."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % 10 == 3:
            raise ValueError("a tenth")
        return sample


class Broken(Raw):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def encode_sample(self, sample: Any) -> Any:
        raise self.error


def loader_of(path: str, encoder: Any = None, **options: Any) -> Loader:
    return make_training_loader(path, encoder=encoder or Tenth(), **{"lanes": 2, **options})


# Failures alone.


def test_consecutive_failures_of_one_hook_stop_the_run() -> None:
    failures = failures_of(tolerance=3)
    for _ in range(2):
        failures.record_failure("one", ValueError("x"), None, "here")
        failures.record_failure("another", ValueError("x"), None, "here")
    failures.record_success("another")
    failures.record_failure("another", ValueError("x"), None, "here")

    with pytest.raises(FatalSampleError, match="3 consecutive samples failed in one") as raised:
        failures.record_failure("one", ValueError("the last"), None, "here")

    assert raised.value.code == "WDS507"
    assert "the last" in raised.value.message
    assert raised.value.where == "here"
    assert failures.stats.failed == 6


def test_tolerance_of_hook_overrides_default_and_0_is_unlimited() -> None:
    failures = failures_of(tolerance=2)

    for _ in range(20):
        failures.record_failure("patient", ValueError(), None, "", tolerance=0)
    with pytest.raises(FatalSampleError, match="1 consecutive sample failed in impatient"):
        failures.record_failure("impatient", ValueError(), None, "", tolerance=1)


@pytest.mark.parametrize(
    "error", [*(kind("x") for kind in FATAL_ERRORS), SystemExit(1)], ids=lambda each: type(each).__name__
)
def test_record_failure_raises_fatal_errors_without_handler(error: BaseException) -> None:
    reports: list[Any] = []
    failures = failures_of(lambda *each: reports.append(each))

    with pytest.raises(FatalSampleError) as raised:
        failures.record_failure("encode_sample", error, None, "here")

    assert raised.value.__cause__ is error
    assert not reports


def test_error_handler_receives_error_sample_and_sources() -> None:
    reports: list[Any] = []
    sample = {"__key__": "1", "__sources__": ("one",)}

    failures_of(lambda *each: reports.append(each)).record_failure("encode_sample", KeyError("x"), sample, "here")

    ((error, failed_sample, sources),) = reports
    assert isinstance(error, SampleFailed)
    assert isinstance(error.__cause__, KeyError)
    assert (failed_sample, sources) == (sample, ("one",))


def test_wdsctl_error_gets_sample_location_once() -> None:
    places = []
    failures = failures_of(lambda error, *_: places.append(error.where))
    for where in ("", "here", "here, part 'jpg'", "part 'jpg'"):
        failures.record_failure("load", InputError("x", hint="y", where=where), None, "here")

    assert places == ["here", "here", "here, part 'jpg'", "here, part 'jpg'"]


def test_get_and_set_field_support_dicts_and_objects() -> None:
    samples = [{"__key__": "a"}, CaptioningSample(__key__="b", image=None, caption="x"), 7]

    assert describe_samples([*samples, {"__key__": "d"}, {}]) == "samples a, b, ? and 2 more"
    assert describe_samples([{}, 7]) == "2 samples without __key__"
    for sample in samples:
        set_field(sample, "__key__", "new")
    assert [get_field(sample, "__key__") for sample in samples] == ["new", "new", None]
    assert describe_sample_location(samples[0]) == "key new"


# In a training.


def test_failing_samples_are_skipped_counted_and_logged_once_per_cause(
    dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = loader_of(dataset, lanes=1)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        batches = take_batches(loader, 27)

    keys = [key for batch in batches for key in batch["__key__"]]
    assert len(keys) == len(set(ids(batches))) == 2 * 54
    assert not [key for key in keys if int(key) % 10 == 3]
    assert loader.stats.failed in range(11, 13)
    lines = [line for record in caplog.records if "skipped" in (line := record.getMessage())]
    assert len(lines) == 1
    assert f"dataset {dataset}" in lines[0]
    assert "a tenth" in lines[0]
    (cause,) = loader.stats.causes
    assert re.fullmatch(r"encode_sample: ValueError at test_failures\.py:\d+", cause)
    assert loader.stats.causes[cause] == loader.stats.failed


def test_failure_causes_are_counted_in_workers(dataset: str) -> None:
    expected = loader_of(dataset)
    take_batches(expected, 20)
    with loader_of(dataset, worker_config=WorkerConfig(num_workers=2)) as loader:
        take_batches(loader, 20)

    assert loader.stats.causes == expected.stats.causes
    assert sum(loader.stats.causes.values()) == loader.stats.failed > 0


def test_global_error_handler_is_called_for_every_failure(dataset: str) -> None:
    reports: list[Exception] = []
    workers = WorkerConfig(global_error_handler=lambda error, *_: reports.append(error))
    loader = loader_of(dataset, worker_config=workers)
    take_batches(loader, 20)

    assert len(reports) == loader.stats.failed > 2


def test_every_failure_is_logged_at_debug_level(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    loader = loader_of(dataset)
    with caplog.at_level(logging.DEBUG, "wdsctl.loader"):
        take_batches(loader, 20)

    assert len([record for record in caplog.records if "skipped a sample" in record.message]) == loader.stats.failed > 2


def test_traceback_is_logged_only_at_debug_level(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    for level, has_traceback in ((logging.WARNING, False), (logging.DEBUG, True)):
        caplog.clear()
        with caplog.at_level(level, "wdsctl.loader"):
            take_batches(loader_of(dataset), 8)
        assert all(bool(record.exc_info) == has_traceback for record in caplog.records)


def test_resume_after_failures_is_exact(dataset: str) -> None:
    expected = digests(loader_of(dataset), 40)

    for place in range(1, 30, 6):
        resumed = loader_of(dataset)
        resumed.load_state_dict(save_state_after(loader_of(dataset), place))
        assert digests(resumed, 40 - place) == expected[place:]


def test_raising_error_handler_stops_training(dataset: str) -> None:
    failed_keys: list[str] = []

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        failed_keys.append(sample["__key__"])
        if len(failed_keys) == 3:
            raise RuntimeError("enough")

    loader = loader_of(dataset, worker_config=WorkerConfig(global_error_handler=handler))
    with pytest.raises(RuntimeError, match="enough"):
        list(islice(loader, 100))

    assert len(failed_keys) == 3


def test_consecutive_failures_stop_training_at_tolerance_of_hook(dataset: str) -> None:
    class Impatient(Raw):
        @stateless(failure_tolerance=4)
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError("always")

    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in encode_sample"):
        next(iter(loader_of(dataset, Broken(ValueError("always")))))
    with pytest.raises(FatalSampleError, match="4 consecutive samples failed in encode_sample"):
        next(iter(loader_of(dataset, Impatient())))


class FailsInside(Raw):
    """Fails at samples 2 to 6: two at the end of the first batch, and three at the beginning of the second."""

    @stateless(failure_tolerance=5)
    def encode_sample(self, sample: Any) -> Any:
        if 2 <= int(sample["__key__"]) <= 6:
            raise ValueError("bad")
        return sample


class FailsInPacks(Raw):
    """Makes packs of three samples, of which all but the first sample fail."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:3], samples[3:]]

    @stateless(failure_tolerance=5)
    def postencode_sample(self, sample: Any) -> Any:
        if 1 <= int(sample["__key__"]) <= 5:
            raise ValueError("bad")
        return sample

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


def train_on_packs(path: str, workers: WorkerConfig) -> Loader:
    packs = {"packing_buffer_size": 6, "batch_size": 1, "shuffle": False, "lanes": 1}
    return loader_of(path, FailsInPacks(), worker_config=workers, **packs)


def validate_in_ranges(path: str, workers: WorkerConfig) -> Loader:
    options: Any = {"task_encoder": FailsInside(), "worker_config": workers}
    return get_loader(get_val_dataset(path, split_part="train", batch_size=4, **options))


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("open_loader", [train_on_packs, validate_in_ranges])
def test_failures_in_a_row_end_run_at_same_batch_if_it_is_resumed_at_every_batch(
    open_loader: Any, workers: int, dataset: str
) -> None:
    def end_of_run(steps: int) -> tuple[int, str]:
        state, count = None, 0
        while count < 20:
            with open_loader(dataset, WorkerConfig(num_workers=workers)) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                try:
                    for _ in islice(loader, steps):
                        count += 1
                except FatalSampleError as error:
                    return count, error.message.partition("; ")[0]
                state = json_round_trip(loader.state_dict())
        return count, "no error"

    assert end_of_run(20)[0] == 1
    assert end_of_run(20)[1].startswith("5 consecutive samples failed in")
    assert end_of_run(1) == end_of_run(20)


@pytest.mark.parametrize("error", [MemoryError("full"), ImportError("gone"), SystemExit(2)], ids=repr)
def test_fatal_error_in_hook_stops_training_at_once(error: BaseException, dataset: str) -> None:
    with pytest.raises(FatalSampleError) as raised:
        next(iter(loader_of(dataset, Broken(error))))

    assert raised.value.__cause__ is error


def test_hook_that_returns_none_is_reported(dataset: str) -> None:
    class ReturnsNone(Raw):
        def encode_sample(self, sample: Any) -> Any:
            sample["x"] = 1

    with pytest.raises(SampleFailed, match="encode_sample returned None") as raised:
        next(iter(loader_of(dataset, ReturnsNone(), worker_config=raising_worker_config())))

    assert "SkipSample" in raised.value.hint


def test_failing_batch_is_skipped(dataset: str) -> None:
    class FirstFails(Raw):
        def batch(self, samples: list[Any]) -> Any:
            if any(sample["__key__"] == "000000" for sample in samples):
                raise ValueError("no batch")
            return super().batch(samples)

    loader = loader_of(dataset, FirstFails(), shuffle=False, lanes=1)

    assert list(next(iter(loader))["__key__"]) == ["000004", "000005", "000006", "000007"]
    assert loader.stats.failed == 1


def test_unreadable_parts_skip_only_their_samples(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 40, shard_samples=20, parts=numbered)
    whole = [key for batch in take_batches(loader_of(path, Raw(), lanes=1), 10) for key in batch["__key__"]]
    shard = tmp_path / "shard-001.tar"
    shard.write_bytes(shard.read_bytes()[:100])

    actual = [key for batch in take_batches(loader_of(path, Raw(), lanes=1), 5) for key in batch["__key__"]]

    assert actual == [key for key in whole if int(key) < 20]


class Repairable(Tenth):
    """Fails at every tenth sample until it is repaired."""

    is_repaired = False

    def encode_sample(self, sample: Any) -> Any:
        return sample if self.is_repaired else super().encode_sample(sample)


def test_raising_error_handler_draws_batch_again(dataset: str) -> None:
    assert WorkerConfig(global_error_handler=reraise_exception) == raising_worker_config()
    expected = digests(loader_of(dataset, Raw(), lanes=1), 12)
    encoder = Repairable()
    loader = loader_of(dataset, encoder, worker_config=raising_worker_config(), lanes=1)
    actual: list[str] = []
    with pytest.raises(SampleFailed, match="a tenth") as first:
        actual.extend(map(digest, loader))
    with pytest.raises(SampleFailed) as second:
        next(iter(loader))
    encoder.is_repaired = True
    rest = digests(loader, 12 - len(actual))

    assert str(second.value) == str(first.value), "the same sample fails"
    assert rest
    assert actual + rest == expected


class FailingPacks(Packs):
    """Fails at every pack until it is repaired."""

    is_repaired = False

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        if not self.is_repaired:
            raise ValueError("no pack")
        return super().pack_selected_samples(samples)


@pytest.mark.parametrize("worker_count", [0, 2])
@pytest.mark.parametrize(
    ("encoder", "options"),
    [(Broken(ValueError("no sample")), {}), (FailingPacks(), {"packing_buffer_size": 6})],
    ids=["samples", "packs"],
)
def test_finite_pass_without_batch_raises_first_failure(
    encoder: Raw, options: dict[str, Any], worker_count: int, dataset: str
) -> None:
    workers = WorkerConfig(num_workers=worker_count)
    loader = loader_of(dataset, encoder, repeat=False, shuffle=False, worker_config=workers, lanes=2, **options)

    with loader:
        for _ in range(2):
            with pytest.raises(FatalSampleError, match=r"the pass ended without a batch, .*ValueError: no ") as raised:
                list(loader)
            assert "000000" in raised.value.message


def test_loop_after_pass_without_batch_begins_new_pass(dataset: str) -> None:
    encoder = FailingPacks()
    loader = loader_of(dataset, encoder, repeat=False, packing_buffer_size=6)
    with pytest.raises(FatalSampleError):
        list(loader)

    encoder.is_repaired = True

    assert list(loader)


def test_finite_pass_of_skipped_samples_ends_without_error(dataset: str) -> None:
    assert not list(loader_of(dataset, Broken(SkipSample("filtered")), repeat=False))


# Failures of the storage.


def test_storage_down_stops_run_but_one_bad_shard_does_not() -> None:
    for error in (StorageDown("no route", hint="x"), PermissionDenied("no entry", hint="x")):
        failures = failures_of()
        with pytest.raises(type(error)) as raised:
            failures.record_failure("load", error, None, "here")
        assert (raised.value.where, failures.stats.failed) == ("here", 0)

    failures = failures_of()
    failures.record_failure("load", StorageError("a short read", hint="x", code="WDS403"), None, "here")
    assert failures.stats.causes == {"load: WDS403: a short read": 1}


@pytest.mark.parametrize("encoder", [Raw(), Tenth()], ids=["bulk", "hooked"])
def test_missing_dataset_stops_training_until_it_is_back(encoder: Raw, tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "data", 60, shard_samples=20, parts=numbered)
    expected = digests(loader_of(path, encoder), 20)
    loader = loader_of(path, encoder)
    actual = digests(loader, 3)
    loader.close()
    (tmp_path / "data").rename(tmp_path / "away")

    with pytest.raises(StorageDown, match="no other shard of the dataset can be found") as raised:
        next(iter(loader))
    assert raised.value.code == "WDS408"
    assert loader.stats.failed == 0 or encoder.__class__ is Tenth

    (tmp_path / "away").rename(tmp_path / "data")
    assert actual + digests(loader, 17) == expected


def test_missing_shard_is_skipped_and_counted(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 60, shard_samples=20, parts=numbered)
    (tmp_path / "shard-001.tar").unlink()
    loader = loader_of(path, Raw(), lanes=1)

    keys = {int(key) for batch in take_batches(loader, 10) for key in batch["__key__"]}

    assert keys == {*range(20), *range(40, 60)}
    assert loader.stats.causes == {
        "load: WDS404: cannot read the shard: No such file or directory": loader.stats.failed
    }


def test_missing_shard_of_100_neighbours_ends_unshuffled_run(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 330, shard_samples=110, parts=numbered)
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in load") as raised:
        take_batches(loader_of(path, Raw(), lanes=1, shuffle=False), 60)

    assert "shard-001.tar" in raised.value.where
