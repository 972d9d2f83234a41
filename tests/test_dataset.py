"""`wdsctl.Dataset`: any sample by position or key, in any process, as in a training."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import wdsctl
from tests.build import a_shard, rewrite_shard
from tests.core.captioned import captions
from tests.loader.datasets import a_dataset, numbered
from wdsctl.core.errors import CatalogError, InputError, StateMismatch, StorageError, UsageError
from wdsctl.core.index.merge import KEPT_GENERATIONS
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view
from wdsctl.loader import CaptioningSample, CrudeSample, SampleDecoder, generic_batch, get_loader, get_val_dataset


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """100 samples in 4 shards, split by sample: train 70, val 30."""
    folder = tmp_path_factory.mktemp("data") / "shards"
    return a_dataset(folder, 100, split={"train": 7, "val": 3}, split_by="sample")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """12 captioned pictures."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.tar").write_bytes(a_shard(captions(0, 12)))
    wdsctl.prepare(folder, split={"train": 1, "val": 1}, by="sample", workers=1)
    return folder


def test_dataset_is_a_sequence_of_its_samples(root: str) -> None:
    ds = wdsctl.Dataset(root)

    assert len(ds) == 100
    assert [ds[i].get("__key__") for i in (0, 41, 99, -1, -100)] == ["000000", "000041", "000099", "000099", "000000"]
    assert [sample["json"]["number"] for sample in ds] == list(range(100))
    assert list(ds.keys()) == [f"{i:06}" for i in range(100)]


def test_dataset_finds_samples_by_key(root: str) -> None:
    ds = wdsctl.Dataset(root)

    assert ds["000041"]["txt"] == "text 41"
    assert "000041" in ds
    assert "41" not in ds
    assert 41 not in ds


def test_slice_is_a_dataset_and_reads_nothing(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = wdsctl.Dataset(root)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", None)
        odd = ds[1:20:2]
        backwards = odd[::-1]
        inner = odd[2:4]

    assert isinstance(odd, wdsctl.Dataset)
    assert list(odd.keys()) == [f"{i:06}" for i in range(1, 20, 2)]
    assert backwards[0]["__key__"] == "000019"
    assert [sample["__key__"] for sample in inner] == ["000005", "000007"]
    assert ("000005" in odd, "000004" in odd) == (True, False)
    assert inner["000007"]["txt"] == "text 7"
    assert len(ds[200:]) == 0
    assert ds[200:]


def test_splits_and_views_contain_only_their_samples(root: str) -> None:
    create_view(root, "late", ViewDefinition(where="key >= '000090'"))
    ds, val = wdsctl.Dataset(root), wdsctl.Dataset(root, split="val")
    late = ds.view("late")

    assert (len(val), len(ds.split("train"))) == (30, 70)
    assert set(val.keys()).isdisjoint(ds.split("train").keys())
    assert all(val[key]["__key__"] == key for key in val.keys())  # noqa: SIM118 - a Dataset is no dict
    assert list(late.keys()) == [f"{i:06}" for i in range(90, 100)]
    assert list(wdsctl.Dataset(f"{root}@late").keys()) == list(late.keys())
    assert set(late.split("val").keys()) == set(late.keys()) & set(val.keys())
    assert len(val.split(None)) == 100


def test_dataset_order_equals_order_of_validation(root: str) -> None:
    val = wdsctl.Dataset(root, split="val")
    validation_keys = [key for batch in get_loader(get_val_dataset(root, batch_size=7)) for key in batch["__key__"]]

    assert validation_keys == list(val.keys())


def test_dataset_decodes_samples_like_training(pictures: Path) -> None:
    ds = wdsctl.Dataset(pictures)
    custom = wdsctl.Dataset(pictures, decode=SampleDecoder(image_decode="rgb8"))

    assert isinstance(ds[3], CaptioningSample)
    assert ds[3].caption == "a picture of number 3"
    assert (ds[3].image.shape, ds[3].image.dtype) == ((3, 8, 8), torch.float32)
    assert custom[3].image.shape == (8, 8, 3)
    assert ds.sample_type == "CaptioningSample"
    assert isinstance(wdsctl.Dataset(pictures, crude=True)[3], CrudeSample)


def test_decode_false_returns_parts_as_bytes(pictures: Path) -> None:
    sample = wdsctl.Dataset(pictures, decode=False)["003"]

    assert {name: value for name, value in sample.items() if not name.startswith("__")} == {
        "jpg": captions(3, 1)["003.jpg"],
        "txt": b"a picture of number 3",
    }


def test_position_out_of_range_raises_index_error_with_hint(root: str) -> None:
    ds = wdsctl.Dataset(root)[:10]
    for position in (10, -11, 1 << 70):
        with pytest.raises(IndexError) as error:
            ds[position]
        assert isinstance(error.value, InputError)
        assert error.value.hint == "positions are 0 to 9"


def test_unknown_key_raises_key_error_with_hint(root: str) -> None:
    with pytest.raises(KeyError, match="no sample 'nobody'") as error:
        wdsctl.Dataset(root)["nobody"]
    with pytest.raises(KeyError, match="but not among these 10 samples"):
        wdsctl.Dataset(root)[:10]["000041"]

    assert isinstance(error.value, InputError)
    assert error.value.code == "WDS004"
    assert pickle.loads(pickle.dumps(error.value)).hint == error.value.hint  # noqa: S301 - our own


def test_duplicate_key_error_lists_positions(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        (tmp_path / name).write_bytes(a_shard({"x.txt": name.encode(), f"{name[0]}.txt": b""}))
    wdsctl.index(tmp_path, workers=1)
    ds = wdsctl.Dataset(tmp_path)

    with pytest.raises(KeyError, match="occurs 2 times, first at 0 and 2"):
        ds["x"]
    assert ds[:2]["x"]["txt"] == "a.tar"


@pytest.mark.parametrize("item", [1.5, None, True, [1, 2]])
def test_invalid_index_type_raises_usage_error(root: str, item: Any) -> None:
    with pytest.raises(UsageError, match="is not a position, key or slice"):
        wdsctl.Dataset(root)[item]


def test_dataset_refuses_missing_splits_views_and_catalogs(root: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard(captions(0, 1)))
    for arguments, error, code in (
        ((root, "dev"), InputError, "WDS211"),
        ((root, None, "nobody's"), InputError, "WDS330"),
        ((tmp_path,), CatalogError, "WDS301"),
        (("",), UsageError, "WDS001"),
    ):
        with pytest.raises(error) as raised:
            wdsctl.Dataset(*arguments)
        assert raised.value.code == code
    with pytest.raises(UsageError, match="from a slice"):
        wdsctl.Dataset(root)[:5].split("val")


def test_sql_returns_rows_as_dicts_and_refuses_writes(root: str) -> None:
    ds = wdsctl.Dataset(root)

    assert ds.sql("SELECT key, shard FROM v_sample WHERE key = '000041'") == [
        {"key": "000041", "shard": "shard-001.tar"}
    ]
    create_view(root, "seven", ViewDefinition(sample="7"))
    assert ds.view("seven").sql("SELECT count(*) AS n FROM v_sample") == [{"n": 7}]
    for query in ("DELETE FROM sample", "ATTACH '/tmp/x' AS x", "SELECT 1; SELECT 2"):
        with pytest.raises(UsageError):
            ds.sql(query)


def test_pickle_is_small_and_restores_same_samples(root: str) -> None:
    ds = wdsctl.Dataset(root, split="val")[3:20:2]
    text = pickle.dumps(ds)
    again = pickle.loads(text)  # noqa: S301 - our own

    assert len(text) < 2_000
    assert len(again) == len(ds)
    assert [sample["txt"] for sample in again] == [sample["txt"] for sample in ds]
    assert pickle.loads(pickle.dumps(again)).root == ds.root  # noqa: S301 - our own


def test_pickle_of_changed_dataset_is_refused(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "shards", 40, split={"train": 3, "val": 1}, split_by="sample")
    text, whole = pickle.dumps(wdsctl.Dataset(root, split="val")), pickle.dumps(wdsctl.Dataset(root))
    wdsctl.split(root, {"train": 1, "val": 1}, by="sample", seed=9, yes=True, workers=1)

    changed = pickle.loads(text)  # noqa: S301 - our own
    for _ in range(2):  # also after a caught error
        with pytest.raises(StateMismatch, match="has changed since it was opened"):
            changed[0]

    for i in range(KEPT_GENERATIONS):
        assert pickle.loads(whole)[0]["__key__"] == "000000"  # noqa: S301 - our own
        (Path(root) / f"more-{i}.tar").write_bytes(a_shard({f"m{i}.txt": b"", f"m{i}.json": b"{}"}))
        wdsctl.index(root, workers=1)
    with pytest.raises(StateMismatch, match="no longer has generation 1"):
        pickle.loads(whole)[0]  # noqa: S301 - our own


def test_replaced_shard_is_refused(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "shards", 40)
    ds = wdsctl.Dataset(root)
    rewrite_shard(f"{root}/shard-000.tar", {"other.txt": b"other"})

    with pytest.raises(StorageError, match="when it was indexed"):
        ds[0]
    assert ds[39]["txt"] == "text 39"


def test_forked_processes_read_dataset_concurrently(root: str) -> None:
    ds = wdsctl.Dataset(root)
    expected = [sample["txt"] for sample in ds]
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            is_same = [ds[i]["txt"] for i in range(100)] == expected and ds["000041"]["txt"] == "text 41"
            os._exit(0 if is_same else 1)
        children.append(child)

    assert [ds[i]["txt"] for i in range(100)] == expected
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]


def test_threads_share_dataset(root: str) -> None:
    ds = wdsctl.Dataset(root)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: ds[i]["json"]["number"], list(range(100)) * 4))

    assert found == list(range(100)) * 4


@pytest.mark.parametrize(("start_method", "workers"), [("fork", 2), ("spawn", 1)])
def test_dataset_works_as_map_style_dataset_of_torch(root: str, start_method: str, workers: int) -> None:
    ds = wdsctl.Dataset(root, split="train")
    loader: DataLoader[Any] = DataLoader(
        ds,  # type: ignore[arg-type]
        batch_size=16,
        num_workers=workers,
        collate_fn=generic_batch,
        multiprocessing_context=start_method,
        shuffle=True,
        generator=torch.Generator().manual_seed(1),
    )
    keys = [key for batch in loader for key in batch["__key__"]]

    assert keys != list(ds.keys())
    assert sorted(keys) == sorted(ds.keys())


def test_dataset_stores_positions_as_range(root: str) -> None:
    ds = wdsctl.Dataset(root)
    state = vars(ds)

    assert set(state) == {"_reader", "_positions"}
    assert isinstance(state["_positions"], range)


class TagCollector(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def check_page(page: str) -> TagCollector:
    """Check that a page contains nothing that runs or loads; return its tags and attributes."""
    found = TagCollector()
    found.feed(page)
    assert found.tags <= {"div", "b", "table", "tr", "td", "img"}
    assert {name for name, _ in found.attributes} <= {"style", "src", "alt"}
    assert all(value.startswith("data:image/jpeg;base64,") for name, value in found.attributes if name == "src")
    assert "url(" not in page
    return found


HOSTILE = '"><script>alert(1)</script><img src="https://example.org/x" onerror="alert(2)">\x1b[2J\u202e'


def hostile_parts(i: int) -> dict[str, bytes]:
    return {**numbered(i), "txt": (HOSTILE * 5_000).encode(), "html": HOSTILE.encode(), "<b>": b"bold"}


def test_html_of_hostile_data_is_safe_and_short(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "<script>alert(3)<", 50, parts=hostile_parts)
    ds = wdsctl.Dataset(root)
    batch = generic_batch(list(ds[:20]))
    for page in (ds._repr_html_(), ds[0]._repr_html_(), batch._repr_html_()):
        check_page(page)
        assert len(page) < 30_000
    assert all("\x1b" not in text for text in (repr(ds), repr(batch), repr(ds[0])))


def test_html_shows_pictures_captions_and_facts(pictures: Path) -> None:
    ds = wdsctl.Dataset(pictures, split="train")
    batch = generic_batch(list(ds))
    page = ds._repr_html_()

    assert [name for name, _ in check_page(page).attributes].count("src") == 4
    assert "a picture of number" in page
    assert all(word in page for word in ("CaptioningSample", "train", "a.tar", "2 more"))
    assert [name for name, _ in check_page(ds[0]._repr_html_()).attributes].count("src") == 1
    assert [name for name, _ in check_page(batch._repr_html_()).attributes].count("src") == 6
    assert "float32 tensor (6, 3, 8, 8)" in batch._repr_html_()


def test_html_of_unreadable_dataset_reports_error(pictures: Path) -> None:
    ds = wdsctl.Dataset(pictures)
    (pictures / "a.tar").unlink()

    assert "WDS408" in ds._repr_html_()


def test_repr_shows_root_split_and_sample_count(root: str) -> None:
    assert repr(wdsctl.Dataset(root, split="val")) == f"<Dataset {root!r}, split='val': 30 samples>"
