"""Training on JSONL: order, resume, blends, traces and damage handling work as with tars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.loader.datasets import Raw
from tests.loader.running import digests, make_training_loader, raising_worker_config, save_state_after, take_batches
from tests.prepare_requests import prepare_request
from tests.remote import upload_shards
from wdsctl.core.errors import InputError, LoaderError, SampleFailed, StateMismatch, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
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


def test_jsonl_sample_is_parsed_object_keyed_by_line_number(tmp_path: Path) -> None:
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
def test_resumed_training_continues_exactly_across_shards_and_epochs(
    tmp_path: Path, encoder: Any, workers: int
) -> None:
    for i in range(4):
        a_file(tmp_path / "data", lines(24, i * 24), f"part-{i}.jsonl")
    root = str(tmp_path / "data")
    prepare(root)
    whole = digests(make_training_loader(root, encoder=encoder), 40)
    state = save_state_after(make_training_loader(root, encoder=encoder), 17)  # of 24 batches a pass
    with make_training_loader(root, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed, 23) == whole[17:]


def test_pass_over_several_ranks_has_every_line_once(tmp_path: Path) -> None:
    root = a_file(tmp_path, b"\xef\xbb\xbf\r\n" + lines(SAMPLES).replace(b"\n", b"\r\n\r\n"))
    seen: list[int] = []
    for rank in range(3):
        seen += numbers(list(make_training_loader(root, rank, 3, Plain(), repeat=False)))
    assert sorted(seen) == list(range(SAMPLES))


def test_restore_sample_returns_sample_of_restore_key(tmp_path: Path) -> None:
    loader = make_training_loader(a_file(tmp_path), encoder=Plain())
    batch = take_batches(loader, 3)[-1]
    assert loader.restore_sample(batch["__restore_key__"][2])["json"] == batch["json"][2]


def test_blend_file_mixes_jsonl_files_by_weight(tmp_path: Path) -> None:
    a_file(tmp_path, lines(40), "a.jsonl")
    a_file(tmp_path, lines(40, 100), "b.ndjson")
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        "      - {path: a.jsonl, weight: 3, subflavors: {from: a}}\n      - {path: ./b.ndjson, weight: 1}\n"
    )
    seen = numbers(take_batches(make_training_loader(str(blend), encoder=Plain(), lanes=1), 25))
    assert sum(n >= 100 for n in seen) == 25


def test_loader_refuses_jsonl_file_that_grew_after_indexing(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    state = save_state_after(make_training_loader(root), 3)
    with open(root, "ab") as file:
        file.write(lines(4, SAMPLES))
    loader = make_training_loader(root, worker_config=raising_worker_config())
    loader.load_state_dict(state)
    with pytest.raises(LoaderError, match="when it was indexed") as caught:
        take_batches(loader, 1)
    assert caught.value.code == "WDS528"


def test_training_on_reindexed_grown_file_reads_all_and_refuses_old_state(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    state = save_state_after(make_training_loader(root), 3)
    with open(root, "ab") as file:
        file.write(lines(4, SAMPLES))
    index(root)
    assert sorted(numbers(list(make_training_loader(root, encoder=Plain(), repeat=False)))) == list(range(SAMPLES + 4))
    old = make_training_loader(root, worker_config=raising_worker_config())
    with pytest.raises(StateMismatch, match="no longer in the split"):
        old.load_state_dict(state)


def test_loader_reports_jsonl_file_truncated_during_training(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    loader = make_training_loader(root, worker_config=raising_worker_config())
    with open(root, "r+b") as file:
        file.truncate(100)
    with pytest.raises(StorageError) as caught:
        take_batches(loader, 30)
    assert caught.value.code == "WDS403"


def test_bad_lines_are_skipped_or_fail_in_strict_mode(tmp_path: Path) -> None:
    data = lines(10) + b'{"n": nonsense}\n{"n": "\xff"}\n' + lines(10, 12)
    root = a_file(tmp_path, data, split={"val": 1})
    seen = numbers(list(get_loader(get_val_dataset(root, batch_size=1))))
    assert seen == [*range(10), *range(12, 22)]
    with pytest.raises(SampleFailed, match="cannot decode part 'json'") as caught:
        list(get_loader(get_val_dataset(root, batch_size=1, worker_config=raising_worker_config())))
    assert "key 10" in caught.value.where


@pytest.mark.slow
def test_loader_parses_line_of_200_mb(tmp_path: Path) -> None:
    long = b'{"n": 1, "text": "' + b"x" * (200 << 20) + b'"}\n'
    root = a_file(tmp_path, b'{"n": 0}\n' + long + b'{"n": 2}\n', split={"val": 1})
    [batch] = list(get_loader(get_val_dataset(root, batch_size=3, worker_config=raising_worker_config())))
    assert [each["n"] for each in batch["json"]] == [0, 1, 2]
    assert len(batch["json"][1]["text"]) == 200 << 20


def test_jsonl_line_above_lazy_part_size_is_still_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.loader.reading.part_reader.LAZY_PART_BYTES", 20)
    root = a_file(tmp_path, b'{"n": 0}\n{"n": 1, "text": "a long one"}\n', split={"val": 1})
    [batch] = list(get_loader(get_val_dataset(root, batch_size=2, worker_config=raising_worker_config())))
    assert batch["json"][1] == {"n": 1, "text": "a long one"}


def test_column_of_json_field_determines_packs(tmp_path: Path) -> None:
    root = a_file(tmp_path)
    index(root, columns={"letters": "json:json:image"})

    class Packs(Plain):
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return {**samples[0], "json": [each["json"] for each in samples]}

    packing = Packing(length="letters", capacity=20, window=16)
    batches = take_batches(make_training_loader(root, encoder=Packs(), packing=packing, batch_size=1), 5)
    assert all(10 < sum(len(each["image"]) for each in batch["json"][0]) <= 20 for batch in batches)


def test_trace_lists_jsonl_samples_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_file(tmp_path)
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, str(tmp_path))
    loader = make_training_loader(root, encoder=Plain(), trace=str(tmp_path / "trace"))
    batch = take_batches(loader, 2)[1]
    loader.close()
    report = query_trace(str(tmp_path / "trace"), TraceOptions(step=1))
    assert report.batches is not None
    assert [(line.dataset, line.key) for line in report.batches[0].samples] == [(root, key) for key in batch["__key__"]]


def test_order_of_jsonl_samples_is_independent_of_storage_location(tmp_path: Path) -> None:
    local = a_file(tmp_path / "local")
    upload_shards(tmp_path / "local", "faulty://store/data", "qa.jsonl")
    urls = ["faulty://store/data/qa.jsonl", "faulty://store/data"]
    for url in urls:
        prepare(url)
    expected = digests(make_training_loader(local, encoder=Raw(), max_samples_per_sequence=8), 30)
    assert digests(make_training_loader(urls[0], encoder=Raw(), max_samples_per_sequence=8), 30) == expected
    assert {key for batch in take_batches(make_training_loader(urls[1]), 9) for key in batch["__key__"]} <= {
        f"qa/{i}" for i in range(SAMPLES)
    }


def test_prepare_refuses_missing_and_compressed_urls() -> None:
    with pytest.raises(InputError):
        prepare("faulty://store/none.jsonl")
    fsspec.filesystem("faulty").pipe_file("/store/x.jsonl.gz", b"x")
    with pytest.raises(UsageError, match="missing DEST"):  # compressed lines become shards
        prepare("faulty://store/x.jsonl.gz")
