from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.build import a_dataset, a_shard, an_image, some_shards
from tests.killing import died, kill_by_the_clock, moments
from tests.remote import uploaded
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.convert.recipe import PartRules
from wdsctl.core.dataset_yaml import load
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError
from wdsctl.core.place import locate
from wdsctl.core.transcode.options import parse_image
from wdsctl.core.verbs.convert import convert
from wdsctl.core.verbs.convert_report import ConvertOptions, ConvertReport
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.prepare import PrepareOptions, prepare

Members = list[tuple[str, bytes]]
QUICK = (Phase.explicit, Phase.generate)  # an example costs some tenths of a second: there is no time to shrink
SLOW_FOLDERS = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


def to(dest: Path, *sources: str | Path, **options: Any) -> ConvertReport:
    return convert([str(source) for source in sources], str(dest), ConvertOptions(**options))


def members(root: Path) -> Members:
    """All files in all tars, in order."""
    found: Members = []
    for path in sorted(root.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                found.append((member.name, file.read()))
    return found


def content(root: Path) -> dict[str, bytes]:
    found = members(root)
    assert len(dict(found)) == len(found)
    return dict(found)


def keys(root: Path) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name, _ in members(root)))


def files(root: Path) -> dict[str, bytes]:
    """Everything but what we keep for ourselves."""
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in paths if ".wdsctl" not in p.parts}


def splits(root: Path) -> dict[str, int]:
    with Catalog(locate(str(root)).catalog) as catalog:
        return {split.name: split.samples for split in catalog.splits()}


def prepared(root: Path, count: int = 4, each: int = 10) -> str:
    source = some_shards(root, count, each)
    prepare(source, None, PrepareOptions(split={"train": 8, "val": 2}, split_by="sample"))
    return source


def test_other_shards_hold_the_same_samples_in_the_same_order(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 5)

    report = to(tmp_path / "b", source, shard_samples=4)

    assert members(tmp_path / "b") == members(tmp_path / "a")
    assert (report.samples, report.files, report.written_files) == (15, 4, 4)
    assert report.datasets[0].splits == {"train": 15}


def test_a_shard_is_never_larger_than_asked_for(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2, 20)

    to(tmp_path / "b", source, shard_size=10_000)

    sizes = [path.stat().st_size for path in (tmp_path / "b").glob("*.tar")]
    assert max(sizes) <= 10_000
    assert len(sizes) == 10  # of five samples, 2 KiB each, there is no room for the end


def test_a_second_run_finds_everything_done(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    first = to(tmp_path / "b", source)
    before = {path: os.stat(tmp_path / "b" / path).st_mtime_ns for path in files(tmp_path / "b")}

    again = to(tmp_path / "b", source)

    assert again.up_to_date
    assert not first.up_to_date
    assert again.samples == first.samples
    assert before == {path: os.stat(tmp_path / "b" / path).st_mtime_ns for path in files(tmp_path / "b")}


def test_a_destination_of_another_conversion_is_refused(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    to(tmp_path / "b", source)

    with pytest.raises(UsageError, match="made by another conversion") as caught:
        to(tmp_path / "b", source, shard_samples=3)
    assert caught.value.code == "WDS345"


def test_a_destination_with_files_of_others_is_refused(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("keep me")

    with pytest.raises(UsageError, match=r"not empty: mine\.txt"):
        to(tmp_path / "b", source)
    assert files(tmp_path / "b") == {"mine.txt": b"keep me"}


@pytest.mark.parametrize("dest", ["a", "a/inside", "."])
def test_a_destination_in_its_source_is_refused(tmp_path: Path, dest: str) -> None:
    source = some_shards(tmp_path / "a", 1)

    with pytest.raises(UsageError, match="must not lie in one another"):
        to(tmp_path / dest, source)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    report = to(tmp_path / "b", source, shard_samples=3, dry_run=True)

    assert (report.dry_run, report.samples, report.files) == (True, 10, 4)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_sort_puts_all_samples_in_order_of_their_keys(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"c.txt": b"c", "a.txt": b"a"}, "1.tar": {"b.txt": b"b"}})

    to(tmp_path / "b", source, order="key", shard_samples=2)

    assert keys(tmp_path / "b") == ["a", "b", "c"]


def test_a_shuffle_is_one_of_all_samples_and_follows_the_seed(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 4, 25)
    for name, seed in (("b", 1), ("c", 1), ("d", 2)):
        to(tmp_path / name, source, order="shuffle", seed=seed, shard_samples=30)

    one, same, other = (keys(tmp_path / name) for name in "bcd")

    assert one == same != other
    assert sorted(one) == sorted(other) == keys(tmp_path / "a") != one
    # Every new shard has samples of every old one.
    assert {int(key) // 25 for key in one[:30]} == {0, 1, 2, 3}


def test_the_bytes_are_the_same_for_one_and_four_workers(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a", 4, 12)
    for name, workers in (("b", 1), ("c", 4)):
        to(tmp_path / name, source, order="shuffle", seed=9, shard_samples=7, workers=workers)

    assert files(tmp_path / "b") == files(tmp_path / "c")
    assert splits(tmp_path / "b") == splits(tmp_path / "c")


def test_splits_go_along_sample_by_sample(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")
    to(tmp_path / "val", source, split="val")
    to(tmp_path / "b", source, order="shuffle", shard_samples=9)
    to(tmp_path / "c", tmp_path / "b", split="val", order="key")

    assert splits(tmp_path / "b") == splits(tmp_path / "a") == {"train": 32, "val": 8}
    assert keys(tmp_path / "c") == sorted(keys(tmp_path / "val"))


def test_the_sample_type_goes_along_with_parts_under_their_new_names(tmp_path: Path) -> None:
    image = an_image("PNG")
    source = a_dataset(tmp_path / "a", {"0.tar": {f"{i}.{p}": d for i in range(4) for p, d in _pair(image, i)}})
    prepare(source, None, PrepareOptions(split={"train": 1}))

    report = to(tmp_path / "b", source, image=parse_image("jpeg:80"))

    config = load(locate(str(tmp_path / "b")).dataset_yaml)
    assert (config.sample_type, config.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})
    assert report.failed == 0
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "b")} == {"jpg", "txt"}


def _pair(image: bytes, i: int) -> list[tuple[str, bytes]]:
    return [("png", image), ("txt", f"a caption of picture {i}".encode())]


def test_a_bad_sample_is_left_out_and_told(tmp_path: Path) -> None:
    source = a_dataset(
        tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken", "c.png": an_image("PNG")}}
    )

    report = to(tmp_path / "b", source, image=parse_image("webp:50"))

    assert keys(tmp_path / "b") == ["a", "c"]
    assert (report.samples, report.failed, report.kept) == (3, 1, 0)
    assert [(found.code, found.key, found.severity) for found in report.findings] == [("WDS341", "b", "error")]
    assert to(tmp_path / "b", source, image=parse_image("webp:50")).failed == 1


def test_a_bad_sample_may_go_along_as_it_was(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken"}})

    report = to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="keep")

    assert sorted(content(tmp_path / "b")) == ["a.jpg", "b.png"]
    assert (report.failed, report.kept) == (0, 1)


def test_a_bad_sample_may_stop_the_run(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"b.png": b"broken"}})

    with pytest.raises(WdsctlError, match="cannot be written anew") as caught:
        to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="error")
    assert caught.value.where == "sample b"
    assert files(tmp_path / "b") == {}


def test_a_shard_that_is_cut_short_gives_the_samples_before(tmp_path: Path) -> None:
    whole = a_shard({f"{i}.txt": b"x" * 2000 for i in range(4)})
    source = a_dataset(tmp_path / "a", {"0.tar": whole[:7000], "1.tar": {"9.txt": b"9"}})

    report = to(tmp_path / "b", source)

    assert keys(tmp_path / "b") == ["0", "1", "9"]
    assert [found.code for found in report.findings] == ["WDS102"]


def test_a_source_that_is_not_what_its_catalog_says_is_refused(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a", 2)
    some_shards(tmp_path / "a", 1, first=7)

    with pytest.raises(DatasetError, match="1 shards are new") as caught:
        to(tmp_path / "b", source)
    assert caught.value.code == "WDS344"


def test_parts_are_taken_dropped_and_renamed(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.jpg": b"j", "a.seg.png": b"s", "a.txt": b"t"}})

    to(tmp_path / "b", source, parts=PartRules(keep=("jpg", "*.png")))
    to(tmp_path / "c", source, parts=PartRules(drop=("txt",), rename=(("jpg", "image.jpg"),)))

    assert content(tmp_path / "b") == {"a.jpg": b"j", "a.seg.png": b"s"}
    assert content(tmp_path / "c") == {"a.image.jpg": b"j", "a.seg.png": b"s"}


def test_two_parts_of_one_name_fail_the_sample_where_others_have_one(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.jpg": b"j", "a.png": b"p", "b.jpg": b"b", "c.png": b"c"}})

    report = to(tmp_path / "b", source, parts=PartRules(rename=(("png", "jpg"),)))

    assert content(tmp_path / "b") == {"b.jpg": b"b", "c.jpg": b"c"}
    assert [found.code for found in report.findings] == ["WDS342"]


def test_a_new_name_that_all_samples_have_already_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")

    with pytest.raises(UsageError, match=r"txt cannot be called jpg.* in all 40 samples") as refused:
        to(tmp_path / "b", source, parts=PartRules(rename=(("txt", "jpg"),)))
    to(tmp_path / "c", source, parts=PartRules(drop=("jpg",), rename=(("txt", "jpg"),)))

    assert refused.value.code == "WDS342"
    assert not (tmp_path / "b").exists()
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "c")} == {"jpg"}


def test_keys_that_collide_are_refused_prefixed_or_left_out(tmp_path: Path) -> None:
    one = a_dataset(tmp_path / "one", {"0.tar": {"a.txt": b"1", "b.txt": b"1"}})
    two = a_dataset(tmp_path / "two", {"0.tar": {"b.txt": b"2", "c.txt": b"2"}})

    with pytest.raises(UsageError, match="1 key of 2 datasets would come more than once in the destination: b"):
        to(tmp_path / "refused", one, two)
    to(tmp_path / "prefixed", one, two, on_collision="prefix")
    report = to(tmp_path / "first", one, two, on_collision="keep-first")

    assert keys(tmp_path / "prefixed") == ["one/a", "one/b", "two/b", "two/c"]
    assert content(tmp_path / "first") == {"a.txt": b"1", "b.txt": b"1", "c.txt": b"2"}
    assert report.repeated == 1


def test_keys_that_repeat_in_one_source_get_a_number(tmp_path: Path) -> None:
    shards = {f"{i}.tar": {"a.txt": str(i).encode()} for i in range(3)}
    source = a_dataset(tmp_path / "a", shards)

    to(tmp_path / "b", source, on_collision="prefix")

    assert content(tmp_path / "b") == {"a.txt": b"0", "2/a.txt": b"1", "3/a.txt": b"2"}


def test_a_dataset_is_taken_apart_by_split_key_and_field(tmp_path: Path) -> None:
    names = {
        f"{'cat' if i % 2 else 'dog'}/{i}.json": json.dumps({"m": {"of": f"x/{i % 3}"}}).encode() for i in range(12)
    }
    source = a_dataset(tmp_path / "a", {"0.tar": names})
    prepare(source, None, PrepareOptions(split={"train": 3, "val": 1}, split_by="sample"))

    to(tmp_path / "key", source, apart="key-prefix")
    to(tmp_path / "split", source, apart="split")
    field = to(tmp_path / "field", source, apart="json:m.of")

    assert sorted(path.name for path in (tmp_path / "key").glob("[!.]*")) == ["cat", "dog"]
    assert splits(tmp_path / "split" / "val") == {"val": 3}
    assert [os.path.basename(each.path) for each in field.datasets] == ["x%2F0", "x%2F1", "x%2F2"]
    for name in ("key", "split", "field"):
        assert content(tmp_path / name) == content(tmp_path / "a")


def test_a_selection_by_where_and_view_is_what_is_converted(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")

    to(tmp_path / "b", source, where="key < '000015'")

    assert keys(tmp_path / "b") == [f"{i:06d}" for i in range(15)]


def test_compressed_shards_go_there_and_back(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 4)
    report = to(tmp_path / "gz", source, compress="gz", shard_samples=5)
    again = to(tmp_path / "gz2", source, compress="gz", shard_samples=5, workers=2)
    to(tmp_path / "b", tmp_path / "gz", order="shuffle", shard_samples=5)

    assert sorted(files(tmp_path / "gz")) == [f"shard-00000{i}.tar.gz" for i in range(3)]
    assert files(tmp_path / "gz") == files(tmp_path / "gz2")
    assert "cannot be trained from" in report.notes[0]
    assert again.datasets[0].sample_type == ""
    assert content(tmp_path / "b") == content(tmp_path / "a")


def test_a_compressed_shard_that_is_cut_short_is_told(tmp_path: Path) -> None:
    to(tmp_path / "gz", some_shards(tmp_path / "a", 1, 2000), compress="gz")
    path = tmp_path / "gz" / "shard-000000.tar.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    report = to(tmp_path / "b", tmp_path / "gz")

    assert [found.code for found in report.findings] == ["WDS102"]
    assert 0 < report.samples < 2000


def test_lines_are_a_source_too(tmp_path: Path) -> None:
    lines = tmp_path / "labels.jsonl"
    lines.write_text("".join(json.dumps({"id": f"k{i}", "n": i}) + "\n" for i in range(5)))
    prepare(str(lines), None, PrepareOptions(key="id"))

    to(tmp_path / "b", lines)

    assert content(tmp_path / "b") == {f"k{i}.json": json.dumps({"id": f"k{i}", "n": i}).encode() for i in range(5)}


def test_odd_names_go_through(tmp_path: Path) -> None:
    names = {
        "a b/ü.txt": b"1",
        "'; DROP TABLE entry; --.txt": b"2",
        f"{'n' * 300}.txt": b"3",
        "../../etc/passwd.txt": b"4",
    }
    source = a_dataset(tmp_path / "a", {"0.tar": a_shard(names, format=tarfile.PAX_FORMAT)})

    to(tmp_path / "b", source, order="key")

    assert content(tmp_path / "b") == names


def test_a_source_without_samples_is_refused(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {}})

    with pytest.raises(InputError) as caught:
        to(tmp_path / "b", source)
    assert caught.value.code == "WDS003"


@pytest.mark.parametrize(
    "options",
    [
        {"template": "all.tar"},
        {"seed": 3},
        {"layout": "polylithic"},
        {"media": ("jpg",)},
        {"compress": "gz", "to_form": "folder"},
        {"apart": "colour"},
        {"to_form": "floppy"},
        {"from_form": "floppy"},
        {"parts": PartRules(rename=(("a", "x"), ("b", "x")))},
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        to(tmp_path / "b", some_shards(tmp_path / "a", 1), **options)


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_media_apart_and_together_again_are_the_same_files(tmp_path: Path, primary: Any) -> None:
    source = prepared(tmp_path / "a")
    to(tmp_path / "whole", source)
    to(tmp_path / "poly", source, layout="polylithic", media=("jpg",), primary=primary, shard_samples=13)
    to(tmp_path / "back", tmp_path / "poly", layout="monolithic")

    assert files(tmp_path / "back") == files(tmp_path / "whole")
    assert splits(tmp_path / "back") == splits(tmp_path / "a")
    assert {name.partition(".")[2] for name, _ in members(tmp_path / "poly" / "media")} == {"jpg"}
    assert "jpg" not in {name.partition(".")[2] for name, _ in members(tmp_path / "poly" / "primary")}


def test_a_sample_whose_media_fail_is_not_in_the_primary(tmp_path: Path) -> None:
    shard = {
        f"{i}.{p}": d for i in range(3) for p, d in (("png", an_image("PNG") if i != 1 else b"bad"), ("txt", b"t"))
    }
    source = a_dataset(tmp_path / "a", {"0.tar": shard})

    report = to(tmp_path / "c", source, layout="polylithic", media=("png",), image=parse_image("webp"))

    assert keys(tmp_path / "c" / "primary") == keys(tmp_path / "c" / "media") == ["0", "2"]
    assert report.failed == 1
    references = json.loads(dict(members(tmp_path / "c" / "primary"))["0.refs.json"])
    assert references == {"webp": "0.webp"}


a_part = st.sampled_from(["jpg", "txt", "json", "seg.png", "left.mp4", "cls"])
some_data = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
        lambda some: st.one_of(st.lists(some, max_size=3), st.dictionaries(st.text(max_size=3), some, max_size=3)),
        max_leaves=5,
    ).flatmap(
        lambda value: st.sampled_from(
            [
                json.dumps(value).encode(),
                json.dumps(value, separators=(",", ":")).encode() + b"\n",
                json.dumps(value, indent=2, ensure_ascii=True).encode(),
            ]
        )
    ),
)
some_samples = st.dictionaries(
    st.text("abcü /-'\"", min_size=1, max_size=6).map(lambda t: f"k{t.strip('/ ')}".replace("//", "/").rstrip("/ ")),
    st.dictionaries(a_part, some_data, min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


@settings(max_examples=6, deadline=None, phases=QUICK, suppress_health_check=SLOW_FOLDERS)
@given(samples=some_samples, primary=st.sampled_from(["tar", "jsonl"]), size=st.integers(1, 5))
def test_mono_to_poly_to_mono_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, samples: dict[str, dict[str, bytes]], primary: Any, size: int
) -> None:
    root = tmp_path_factory.mktemp("round")
    samples |= {"last": {"jpg": b"there is always one"}}
    shard = {f"{key}.{part}": data for key, parts in samples.items() for part, data in sorted(parts.items())}
    source = a_dataset(root / "a", {"0.tar": shard})

    to(root / "mono", source)
    to(root / "poly", root / "mono", layout="polylithic", media=("jpg", "mp4"), primary=primary, shard_samples=size)
    to(root / "back", root / "poly")

    assert files(root / "back") == files(root / "mono")
    assert content(root / "back") == shard


@settings(max_examples=4, deadline=None, phases=QUICK, suppress_health_check=SLOW_FOLDERS)
@given(first=st.integers(1, 9), second=st.integers(1, 9), seed=st.integers(0, 99))
def test_shards_of_shards_are_the_shards_at_once(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int, seed: int
) -> None:
    root = tmp_path_factory.mktemp("again")
    source = some_shards(root / "a", 2, 6)
    to(root / "b", source, shard_samples=first, order="shuffle", seed=seed)
    to(root / "c", root / "b", shard_samples=second, order="key")
    to(root / "d", source, shard_samples=second, order="key")

    assert files(root / "c") == files(root / "d")


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")
    to(tmp_path / "whole", source, shard_samples=5)

    class Stopping:
        count = 0

        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            self.name = name

        def advance(self, **_: Any) -> None:
            self.count += self.name == "write"
            if self.count == 3:
                raise KeyboardInterrupt

        def note(self, message: str) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        convert([source], str(tmp_path / "b"), ConvertOptions(shard_samples=5), progress=Stopping())
    assert len(files(tmp_path / "b")) == 3
    report = to(tmp_path / "b", source, shard_samples=5)

    assert (report.written_files, report.kept_files) == (5, 3)
    assert files(tmp_path / "b") == files(tmp_path / "whole")


class StopsAtTheEnd:
    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        if name == "finish":
            raise KeyboardInterrupt

    def advance(self, **_: Any) -> None: ...

    def note(self, message: str) -> None: ...


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_killed_run_left_half_written_beside_primary_and_media_is_removed(tmp_path: Path, restart: bool) -> None:
    source, dest = prepared(tmp_path / "a", 2, 4), tmp_path / "b"
    options = ConvertOptions(layout="polylithic", media=("jpg",))
    with pytest.raises(KeyboardInterrupt):
        convert([source], str(dest), options, progress=StopsAtTheEnd())
    (dest / ".monolithic.yaml.99999.partial").write_bytes(b"half")

    to(dest, source, layout="polylithic", media=("jpg",), shard_samples=3 if restart else 10_000, restart=restart)

    assert sorted(path.name for path in dest.iterdir() if path.name.startswith(".")) == [".wdsctl"]


def test_an_unfinished_conversion_makes_room_for_another_only_if_told_to(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        convert([source], str(tmp_path / "b"), ConvertOptions(shard_samples=5), progress=StopsAtTheEnd())
    with pytest.raises(UsageError, match="begun by another conversion"):
        to(tmp_path / "b", source, shard_samples=20)

    to(tmp_path / "b", source, shard_samples=20, restart=True)

    assert len(files(tmp_path / "b")) == 2
    assert content(tmp_path / "b") == content(tmp_path / "a")


KILLED = """
from __future__ import annotations
import sys
from wdsctl.core.transcode.options import parse_image
from wdsctl.core.verbs.convert import convert
from wdsctl.core.verbs.convert_report import ConvertOptions
if __name__ == "__main__":
    more = {"layout": "polylithic", "media": ("jpg", "png")} if sys.argv[3] == "poly" else {}
    convert([sys.argv[1]], sys.argv[2], ConvertOptions(shard_samples=5, order="shuffle", workers=2, **more))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["fsync", "replace"])
@pytest.mark.parametrize("layout", ["whole", "poly"])
def test_killed_at_any_moment_it_ends_in_the_same_bytes(tmp_path: Path, layout: str, seam: str) -> None:
    """Killed there, run again and killed at the same call of what is left, if there are so many, and run to its end."""
    source, dest, count = prepared(tmp_path / "a", 6, 20), tmp_path / "b", tmp_path / "count"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), source]
    for moment in moments([*command, str(tmp_path / "whole"), layout], seam, 10, count):
        assert died([*command, str(dest), layout], moment, count)
        assert names_are_of_whole_files(dest)
        died([*command, str(dest), layout], moment, count)
        assert names_are_of_whole_files(dest)
        subprocess.run([*command, str(dest), layout], check=True)
        assert files(dest) == files(tmp_path / "whole")
        shutil.rmtree(dest)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["whole", "poly"])
def test_killed_by_the_clock_it_ends_in_the_same_bytes(tmp_path: Path, layout: str) -> None:
    source, dest = prepared(tmp_path / "a", 6, 20), tmp_path / "b"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), source]
    subprocess.run([*command, str(tmp_path / "whole"), layout], check=True)
    rng = random.Random(5)
    for _ in range(2):
        for _ in range(3):
            kill_by_the_clock([*command, str(dest), layout], 1.4, rng)
            assert names_are_of_whole_files(dest)
        subprocess.run([*command, str(dest), layout], check=True)
        assert files(dest) == files(tmp_path / "whole")
        shutil.rmtree(dest)


def names_are_of_whole_files(dest: Path) -> bool:
    return all("partial" not in name or name.rpartition("/")[2].startswith(".") for name in files(dest))


def test_prepare_names_the_command_for_forms_that_are_converted(tmp_path: Path) -> None:
    to(tmp_path / "gz", some_shards(tmp_path / "a", 1), compress="gz")

    with pytest.raises(UsageError, match=r"compressed tars, such as shard-000000\.tar\.gz") as caught:
        prepare(str(tmp_path / "gz"), str(tmp_path / "b"))
    assert caught.value.hint.startswith("`wdsctl convert ")


@pytest.mark.usefixtures("faulty_store")
def test_shards_in_a_store_are_a_source(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 4)
    uploaded(source, "faulty://store/shards")

    to(tmp_path / "b", "faulty://store/shards", order="shuffle", seed=2, shard_samples=5)
    to(tmp_path / "c", source, order="shuffle", seed=2, shard_samples=5)

    assert files(tmp_path / "b") == files(tmp_path / "c")


def test_a_destination_in_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not to a URL"):
        convert([some_shards(tmp_path / "a", 1)], "s3://bucket/made", ConvertOptions())


def test_a_source_that_has_lost_a_shard_is_refused_and_the_shard_is_named(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "d", 2)
    index(root)
    os.unlink(f"{root}/shard-001.tar")
    for is_known in (False, True):
        if is_known:
            index(root, missing="keep")
        with pytest.raises(DatasetError, match="1 shard of the source vanished: shard-001") as caught:
            convert([root], str(tmp_path / "out"))
        assert (caught.value.code, "--missing drop" in caught.value.hint) == ("WDS344", True)
