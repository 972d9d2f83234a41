"""A training over JSONL: order, resume, blends, traces and damage are as with tars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.loader.datasets import Raw
from tests.loader.running import digests, saved_after, strict, taken, training_of
from tests.preparing import prepare_request
from tests.remote import uploaded
from wdsctl.core.errors import InputError, LoaderError, SampleFailed, StateMismatch, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.loader import DefaultTaskEncoder, Packing, WorkerConfig, get_loader, get_val_dataset

SAMPLES = 96
pytestmark = pytest.mark.usefixtures("faulty_store")


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(json.dumps({"n": i, "image": f"{i}.jpg"}).encode() + b"\n" for i in range(first, first + count))


def a_file(folder: Path, data: bytes | None = None, name: str = "qa.jsonl", **options: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(lines(SAMPLES) if data is None else data)
    prepare(str(path), None, prepare_request(**options))
    return str(path)


class Plain(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Decoded, and nothing else."""


def numbers(batches: list[Any]) -> list[int]:
    return [each["n"] for batch in batches for each in batch["json"]]


def test_a_sample_is_its_object_with_the_number_of_its_line(tmp_path: Path) -> None:
    root = a_file(tmp_path, split={"val": 1})
    batches = list(get_loader(get_val_dataset(root, batch_size=4)))
    assert numbers(batches) == list(range(SAMPLES))
    first = batches[0]
    assert first["__key__"] == ["0", "1", "2", "3"]
    assert first["json"][1] == {"n": 1, "image": "1.jpg"}
    source = first["__sources__"][1]
    assert (source.dataset_path, source.shard_name, source.file_names) == (root, "qa.jsonl", ("1.json",))
    at, size = source.byte_range
    assert json.loads(Path(root).read_bytes()[at : at + size]) == first["json"][1]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("encoder", [Raw(), Plain()], ids=["bulk", "decoded"])
def test_a_resumed_training_goes_on_exactly_through_shards_and_epochs(
    tmp_path: Path, encoder: Any, workers: int
) -> None:
    for i in range(4):
        a_file(tmp_path / "data", lines(24, i * 24), f"part-{i}.jsonl")
    root = str(tmp_path / "data")
    prepare(root)
    whole = digests(training_of(root, encoder=encoder), 60)
    state = saved_after(training_of(root, encoder=encoder), 17)  # of 24 batches a pass
    with training_of(root, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed, 43) == whole[17:]


def test_a_pass_has_every_line_once_on_several_ranks(tmp_path: Path) -> None:
    root = a_file(tmp_path, b"\xef\xbb\xbf\r\n" + lines(SAMPLES).replace(b"\n", b"\r\n\r\n"))
    seen: list[int] = []
    for rank in range(3):
        seen += numbers(list(training_of(root, rank, 3, Plain(), repeat=False)))
    assert sorted(seen) == list(range(SAMPLES))


def test_a_sample_is_restored_by_its_key(tmp_path: Path) -> None:
    loader = training_of(a_file(tmp_path), encoder=Plain())
    batch = taken(loader, 3)[-1]
    assert loader.restore_sample(batch["__restore_key__"][2])["json"] == batch["json"][2]


def test_a_blend_file_takes_lines_and_what_it_says_beside_them(tmp_path: Path) -> None:
    a_file(tmp_path, lines(40), "a.jsonl")
    a_file(tmp_path, lines(40, 100), "b.ndjson")
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        "      - {path: a.jsonl, weight: 3, subflavors: {from: a}}\n      - {path: ./b.ndjson, weight: 1}\n"
    )
    seen = numbers(taken(training_of(str(blend), encoder=Plain(), lanes=1), 25))
    assert sum(n >= 100 for n in seen) == 25


def test_a_file_that_grew_while_it_is_read_is_refused(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    state = saved_after(training_of(root), 3)
    with open(root, "ab") as file:
        file.write(lines(4, SAMPLES))
    loader = training_of(root, worker_config=strict())
    loader.load_state_dict(state)
    with pytest.raises(LoaderError, match="when it was indexed") as caught:
        taken(loader, 1)
    assert caught.value.code == "WDS528"


def test_a_training_on_what_has_grown_begins_anew_with_all_of_it(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    state = saved_after(training_of(root), 3)
    with open(root, "ab") as file:
        file.write(lines(4, SAMPLES))
    index(root)
    assert sorted(numbers(list(training_of(root, encoder=Plain(), repeat=False)))) == list(range(SAMPLES + 4))
    old = training_of(root, worker_config=strict())
    with pytest.raises(StateMismatch, match="no longer in the split"):
        old.load_state_dict(state)


def test_a_file_that_was_replaced_under_a_training_is_told(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    loader = training_of(root, worker_config=strict())
    with open(root, "r+b") as file:
        file.truncate(100)
    with pytest.raises(StorageError) as caught:
        taken(loader, 30)
    assert caught.value.code == "WDS403"


def test_a_bad_line_fails_as_a_bad_sample_does_and_the_rest_comes(tmp_path: Path) -> None:
    data = lines(10) + b'{"n": nonsense}\n{"n": "\xff"}\n' + lines(10, 12)
    root = a_file(tmp_path, data, split={"val": 1})
    seen = numbers(list(get_loader(get_val_dataset(root, batch_size=1))))
    assert seen == [*range(10), *range(12, 22)]
    with pytest.raises(SampleFailed, match="cannot decode part 'json'") as caught:
        list(get_loader(get_val_dataset(root, batch_size=1, worker_config=strict())))
    assert "key 10" in caught.value.where


@pytest.mark.slow
def test_a_line_of_200_mb_is_an_object_like_any_other(tmp_path: Path) -> None:
    long = b'{"n": 1, "text": "' + b"x" * (200 << 20) + b'"}\n'
    root = a_file(tmp_path, b'{"n": 0}\n' + long + b'{"n": 2}\n', split={"val": 1})
    [batch] = list(get_loader(get_val_dataset(root, batch_size=3, worker_config=strict())))
    assert [each["n"] for each in batch["json"]] == [0, 1, 2]
    assert len(batch["json"][1]["text"]) == 200 << 20


def test_a_line_above_the_size_of_a_handle_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.loader.reading.part_reader.LAZY_PART_BYTES", 20)
    root = a_file(tmp_path, b'{"n": 0}\n{"n": 1, "text": "a long one"}\n', split={"val": 1})
    [batch] = list(get_loader(get_val_dataset(root, batch_size=2, worker_config=strict())))
    assert batch["json"][1] == {"n": 1, "text": "a long one"}


def test_a_column_of_a_field_makes_packs(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    index(root, columns={"letters": "json:json:image"})

    class Packs(Plain):
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return {**samples[0], "json": [each["json"] for each in samples]}

    packing = Packing(length="letters", capacity=20, window=16)
    batches = taken(training_of(root, encoder=Packs(), packing=packing, batch_size=1), 5)
    assert all(10 < sum(len(each["image"]) for each in batch["json"][0]) <= 20 for batch in batches)


def test_a_trace_names_the_lines(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    loader = training_of(root, encoder=Plain(), trace=str(tmp_path / "trace"))
    batch = taken(loader, 2)[1]
    loader.close()
    report = query_trace(str(tmp_path / "trace"), TraceOptions(step=1))
    assert report.batches is not None
    assert [(line.dataset, line.key) for line in report.batches[0].samples] == [(root, key) for key in batch["__key__"]]


def test_the_stream_does_not_depend_on_where_the_lines_lie(tmp_path: Path) -> None:
    local = a_file(tmp_path / "local")
    uploaded(tmp_path / "local", "faulty://store/data", "qa.jsonl")
    urls = ["faulty://store/data/qa.jsonl", "faulty://store/data"]
    for url in urls:
        prepare(url)
    ours = digests(training_of(local, encoder=Raw(), max_samples_per_sequence=8), 30)
    assert digests(training_of(urls[0], encoder=Raw(), max_samples_per_sequence=8), 30) == ours
    assert {key for batch in taken(training_of(urls[1]), 9) for key in batch["__key__"]} <= {
        f"qa/{i}" for i in range(SAMPLES)
    }


def test_a_url_of_no_file_is_said_so() -> None:
    with pytest.raises(InputError):
        prepare("faulty://store/none.jsonl")
    fsspec.filesystem("faulty").pipe_file("/store/x.jsonl.gz", b"x")
    with pytest.raises(UsageError, match="missing DEST"):  # compressed lines become shards
        prepare("faulty://store/x.jsonl.gz")
