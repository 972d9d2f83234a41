"""The fuzz targets: functions of bytes that check what must hold. Whatever they raise is a finding.

Hostile input ends in an error of wdsctl, so targets ignore those errors and no others. Each target has initial valid
inputs, built here or read from `seeds/NAME/sound-*`, and files with former findings.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from tests.build import a_dataset, a_shard, memory_reader, samples
from tests.fuzz.containers import CONTAINER_TARGETS
from tests.fuzz.target import Target, work_folder, write_file
from tests.in_place import mds_shard, write_litdata, write_mds, write_zip
from wdsctl.core import importers
from wdsctl.core.blend import read_blend, traverse
from wdsctl.core.catalog.ledger import Ledger, ShardRecord
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.checkpoint.files import read_states
from wdsctl.core.checkpoint.state import check_state, merge_states
from wdsctl.core.columns.column_file import ColumnFacts, ColumnShard, read_column, write_column
from wdsctl.core.dataset.config import dump_config, parse_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.shard_names import ShardFormat
from wdsctl.core.energon.split_yaml import parse_split_yaml
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.importers import protocol as importers_protocol
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.lerobot.metadata import INDEX_COLUMNS, read_robot_dataset
from wdsctl.core.index.index import index
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.sniff import sniff
from wdsctl.core.offsets.block_checksums import append_checksums
from wdsctl.core.offsets.key_list import read_key_list
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.safe_open import is_beneath
from wdsctl.core.samples.conversations import normalize_conversation
from wdsctl.core.samples.documents import name_images, normalize_document
from wdsctl.core.samples.key_rules import SampleLayout, choose_key_rule
from wdsctl.core.samples.naming import KEY_RULES, dotless_key, possible_keys, split_name_by_rule
from wdsctl.core.shards.jsonl_scan import scan_jsonl
from wdsctl.core.shards.scan_unit import scan_in_place
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.text import escape_unprintable, printable_path
from wdsctl.core.urls import redact_secrets

SEEDS = Path(__file__).parent / "seeds"


# -- shards -----------------------------------------------------------------------------------------------------------


def run_tar(data: bytes) -> None:
    """Every part lies within the file; if Python's tarfile accepts the archive, it has the same members."""
    scan = scan_tar("a.tar", memory_reader(data), len(data))
    ends = scan.part_offsets + scan.part_sizes
    assert (scan.part_sizes >= 0).all(), "a part has no size"
    assert (scan.part_offsets >= 0).all(), "a part is nowhere"
    assert (ends <= len(data)).all(), "a part ends behind the file"
    assert int(scan.counts.sum()) == len(scan.part_sizes)
    assert int(scan.key_sizes.sum()) == len(scan.keys)
    keys = scan.decode_keys()
    if scan.status != "ok" or scan.findings:
        return
    expected = _members(data)
    if expected is None:
        return
    names = np.repeat(np.arange(scan.samples), scan.counts).tolist()
    actual = [
        (f"{keys[row]}.{scan.extensions[part]}", offset, size)
        for row, part, offset, size in zip(
            names, scan.part_names.tolist(), scan.part_offsets.tolist(), scan.part_sizes.tolist(), strict=True
        )
    ]
    assert actual == expected, f"tarfile has other members: {actual[:3]} and {expected[:3]}"


def _members(data: bytes) -> list[tuple[str, int, int]] | None:
    """The members that tarfile finds; None if it cannot read all of them, or if names are not supported by both."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            found = archive.getmembers()
    except (tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError):
        return None
    if any(not member.isreg() or member.issparse() or not member.name.isascii() for member in found):
        return None
    return [(member.name, member.offset_data, member.size) for member in found]


def _tars() -> Sequence[bytes]:
    files = {**samples(0, 3, "jpg", "txt"), "b/long.seg.png": b"x" * 600, "c.cls": b""}
    kinds = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    long = {f"{'d' * 90}/{'k' * 120}.txt": b"1", "ü.txt": b"2"}
    return [a_shard(files, format=kind) for kind in kinds] + [a_shard(long, format=kind) for kind in kinds[1:]]


def run_jsonl(data: bytes) -> None:
    """Lines are the texts between line ends, and lie within the file."""
    scan = scan_jsonl("a.jsonl", memory_reader(data), len(data))
    ends = scan.part_offsets + scan.part_sizes
    assert (scan.part_sizes > 0).all(), "an empty line"
    assert (ends <= len(data)).all(), "a line ends behind the file"
    if scan.status != "ok" or scan.findings:
        return
    actual = [data[a:b].strip() for a, b in zip(scan.part_offsets.tolist(), ends.tolist(), strict=True)]
    expected = [line.strip() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert actual == expected, "other lines than a text editor shows"


def run_in_place(data: bytes) -> None:
    """Shards of other formats: a scan returns, and its parts lie within the shard, in ascending order."""
    index = b'{"chunks":[{"filename":"chunk-0-0.bin","chunk_size":2,"chunk_bytes":0}],"config":{"data_format":["str"],'
    index += b'"data_spec":"[1, {\\"type\\": null}]"}}'
    for format_name, name in _IN_PLACE_NAMES.items():
        scan = scan_in_place(format_name, name, memory_reader(data), len(data), lambda _: index)
        ends = scan.part_offsets + scan.part_sizes
        assert (scan.part_offsets >= 0).all(), "a part begins before the shard"
        assert (scan.part_sizes >= 0).all(), "a part of a negative size"
        assert (ends <= len(data)).all(), "a part ends behind the shard"
        assert int(scan.counts.sum()) == len(ends), "parts of no sample"
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        assert (np.diff(scan.part_offsets)[np.diff(samples) == 0] >= 0).all(), "parts of a sample are not ascending"
        assert scan.findings or scan.status == "ok"


_IN_PLACE_NAMES: dict[ShardFormat, str] = {
    "mds": "a.mds",
    "litdata": "chunk-0-0.bin",
    "zip": "a.zip",
}


def _in_place_shards() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rows = [{"text": b"one", "data": b"\xff\xd8\xff12345"}, {"text": b"", "data": b"two"}]
        chunk = write_litdata(root / "lit", {"text": "str"}, [rows]) / "chunk-0-0.bin"
        archive = write_zip(root / "a.zip", {"a/1.txt": b"one", "a/1.jpg": b"two", "2.txt": b""})
        shard = mds_shard({"text": "str", "data": "bytes"}, rows)
        return [shard, chunk.read_bytes(), archive.read_bytes()]


# -- text that people write -------------------------------------------------------------------------------------------


def run_dataset_yaml(data: bytes) -> None:
    """A config that parses can be written, and parses again to the same value."""
    with suppress(WdsctlError, UnicodeDecodeError):
        config = parse_config(data.decode())
        assert parse_config(dump_config(config)) == config, "it is another one when it is written and read"


def run_split_yaml(data: bytes) -> None:
    with suppress(WdsctlError, UnicodeDecodeError):
        parse_split_yaml(data.decode(), "split.yaml")


def run_blend(data: bytes) -> None:
    """Only the file itself is opened and nothing is imported; weights are numbers that define an order."""
    path = write_file("blend.yaml", data)
    with suppress(WdsctlError):
        for reference in traverse(read_blend(path)):
            assert isinstance(reference.path, str)


# -- states -----------------------------------------------------------------------------------------------------------


def run_state(data: bytes) -> None:
    """A state that passes the check is merged or refused."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    with suppress(WdsctlError):
        check_state(value)
        merge_states([value])
    if isinstance(value, list):
        with suppress(WdsctlError):
            merge_states(value)


def _states() -> Sequence[bytes]:
    return [each.read_bytes() for each in sorted((SEEDS / "state").glob("sound-*"))]


def run_checkpoint(data: bytes) -> None:
    """A file of any program: none of its code runs, and its declared sizes allocate no memory."""
    for name in ("a.pt", "a.json"):
        with suppress(WdsctlError):
            read_states(write_file(name, data))


# -- files that are mapped --------------------------------------------------------------------------------------------


@cache
def _prepared() -> str:
    """A dataset with two shards and a catalog."""
    root = a_dataset(
        Path(work_folder()) / "data",
        {"a.tar": samples(0, 4), "b.tar": {**samples(4, 3), "x.json": b"{}", "y.txt": b"1"}},
    )
    index(root)
    return root


def _without_checksums(data: bytes) -> bytes:
    """A file without its checksums. `_add_checksums` appends new ones, without which every change would be refused."""
    blocks, rest = divmod(len(data), 4096 + 8)
    return data[: blocks * 4096] if not rest else data


def _add_checksums(name: str, body: bytes) -> str:
    path = write_file(name, body)
    with open(path, "r+b") as file:
        append_checksums(file)
    return path


def run_offsets(data: bytes) -> None:
    """All parts of a sample lie within its shard, or the file is refused."""
    with suppress(WdsctlError):
        offsets = Offsets(_add_checksums("offsets-1.bin", data))
        if offsets.samples > 1000:
            return
        for row in range(offsets.samples):
            shard = offsets.shards[offsets.shard_of(row)]
            offsets.key(row)
            for _, offset, size in offsets.parts(row):
                assert 0 <= offset <= offset + size <= shard.size, "a part is outside of its shard"


def _offsets() -> Sequence[bytes]:
    place = locate(_prepared())
    return [_without_checksums(Path(place.offsets_path(1)).read_bytes())]


def run_column(data: bytes) -> None:
    """A column has a number for each sample, or is refused."""
    with suppress(WdsctlError):
        column = read_column(_add_checksums("sizes-1.bin", data))
        assert len(column.values) == column.facts.samples


def _columns() -> Sequence[bytes]:
    facts = ColumnFacts("sizes", "size:txt", "", 2, "")
    path = os.path.join(work_folder(), "sizes-2.bin")
    write_column(path, facts, [ColumnShard(i, bytes(16), 0, np.arange(4, dtype=np.int64)) for i in (1, 2)])
    return [_without_checksums(Path(path).read_bytes())]


def run_catalog(data: bytes) -> None:
    """Whatever a catalog contains, readers return or raise an error of wdsctl."""
    path = write_file("catalog.sqlite", data)
    with suppress(WdsctlError), Catalog.open(path) as catalog:
        catalog.shards()
        catalog.parts()
        catalog.facts()


def _catalogs() -> Sequence[bytes]:
    return [Path(locate(_prepared()).catalog_path).read_bytes()]


def run_ledger(data: bytes) -> None:
    """A ledger that was changed reads as empty, gives what it has, or is refused."""
    path = write_file("ledger.sqlite", data)
    for opened in (Ledger.open_for_reading, Ledger.open_for_views):
        with suppress(WdsctlError), opened(path) as ledger:
            ledger.planned_shards()
            ledger.plan_source()
            for run in ledger.runs(limit=10):
                ledger.findings(run["id"])
            for view in ledger.views():
                ledger.view(view.name)


def _ledgers() -> Sequence[bytes]:
    with Ledger.open(os.path.join(work_folder(), "whole", "ledger.sqlite")) as ledger:
        ledger.replace_plan([ShardRecord("a.tar", 0, 4, 100, "digest", b"keys", b"marks", "done")], "/data")
        run = ledger.begin_run("index", ["index"], version="0")
        ledger.add_findings(run, [Finding(code="WDS101", severity="error", message="x")])
    return [Path(ledger.path).read_bytes()]


def run_keyframes(data: bytes) -> None:
    with suppress(WdsctlError, ValueError):
        found = KeyframeIndex.from_bytes(data)
        assert len(found.pts) == len(found.frame_numbers) == len(found.byte_offsets)


def _keyframes() -> Sequence[bytes]:
    from fractions import Fraction

    return [KeyframeIndex(Fraction(1, 90000), 30, 0, 90000, (0, 45000), (0, 15), (48, 4000)).to_bytes()]


# -- names and references ---------------------------------------------------------------------------------------------


def run_reference(data: bytes) -> None:
    """An accepted reference leads to a path beneath its folder, whatever links the folder contains."""
    root = _referencework_folder()
    with suppress(WdsctlError, UnicodeDecodeError):
        path = resolve_reference(root, data.decode("utf-8", "surrogateescape"), "row 1")
        assert is_beneath(path, (root,)), f"{data!r} leads out"


@cache
def _referencework_folder() -> str:
    root = Path(work_folder()) / "rows"
    (root / "sub").mkdir(parents=True)
    (root / "a.jpg").write_bytes(b"x")
    (root / "sub" / "out").symlink_to("/")
    (root / "up").symlink_to("..")
    return str(root)


def run_name(data: bytes) -> None:
    """Every rule divides a name into one key and one part, which joined are the name again."""
    name = data.decode("utf-8", "surrogateescape")
    for rule in KEY_RULES:
        split = split_name_by_rule(name, rule)
        if split is not None:
            assert f"{split[0]}.{split[1]}" == name, f"{rule} changes the name"
            assert "." not in dotless_key(split[0]).rpartition("/")[2]
    possible_keys(name)
    parts = tuple(part for part in name.split(",") if part)
    if parts:
        choose_key_rule([SampleLayout(parts, 1, "k")])


def run_output(data: bytes) -> None:
    """Shown text contains no terminal control characters and no password."""
    text = data.decode("utf-8", "surrogateescape")
    for line in (escape_unprintable(text), escape_unprintable(printable_path(text))):
        assert line.isprintable() or all(c.isprintable() or c == " " for c in line), f"{line!r} is not printable"
    output = redact_secrets(f"s3://user:SECRET@host/{text}")
    assert "SECRET" not in output, f"{output!r} shows the password"


def run_key_list(data: bytes) -> None:
    path = write_file("keys.txt", data)
    with suppress(WdsctlError):
        keys = read_key_list("", path)
        expected = [line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [keys.key(row).encode() for row in range(len(keys.key_start) - 1)] == [each for each in expected if each]


def run_importers(data: bytes) -> None:
    """A JSON index as other tools write it: its entries have keys, and no data is from outside its folder."""
    folder = _indexwork_folder()
    (folder / "index.json").write_bytes(data)
    for format_name, root in (("wids", folder / "index.json"), ("mds", folder), ("litdata", folder)):
        with suppress(WdsctlError), importers.get_importer(format_name).open(str(root), {}) as source:
            for number, entry in zip(range(3), source.entries(), strict=False):
                assert entry.key
                with suppress(WdsctlError):
                    assert not any(_OUTSIDE in part.data for part in source.read(number)), "read outside the folder"


_OUTSIDE = b"outside"  # the text in shards that an index must not lead to


@cache
def _indexwork_folder() -> Path:
    """A folder with shards and a link to its parent folder, which has shards of the same names and sizes."""
    above = Path(work_folder()) / "above"
    folder = above / "indexes"
    for place, text in ((folder, b"within."), (above, _OUTSIDE)):
        write_litdata(place, {"text": "str"}, [[{"text": text}]])
        write_mds(place, {"text": "str"}, [[{"text": text}]])
        (place / "a.tar").write_bytes(a_shard({"0.txt": text}))
    (folder / "up").symlink_to("..")
    return folder


def _indexes() -> Sequence[bytes]:
    """Indexes of each format that name a shard within their folder, and outside of it by `..` and by a link."""
    above = _indexwork_folder().parent
    litdata = (write_litdata(above, {"text": "str"}, [[{"text": _OUTSIDE}]]) / "index.json").read_bytes()
    mds = (write_mds(above, {"text": "str"}, [[{"text": _OUTSIDE}]]) / "index.json").read_bytes()
    wids = b'{"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 1}]}'
    names = {b"chunk-0-0.bin": litdata, b"shard.00000.mds": mds, b"a.tar": wids}
    return [index.replace(name, prefix + name) for name, index in names.items() for prefix in (b"", b"../", b"up/")]


def run_lerobot(data: bytes) -> None:
    """The description of a LeRobot dataset: the files that it names lie below the dataset."""
    folder = os.path.join(work_folder(), "robot/meta")
    os.makedirs(folder, exist_ok=True)
    write_file("robot/meta/info.json", data)
    write_file("robot/meta/tasks.jsonl", b'{"task_index": 0, "task": "x"}')
    write_file("robot/meta/episodes.jsonl", b'{"episode_index": 0, "length": 5}\n{"episode_index": 1, "length": 2}')
    with suppress(WdsctlError):
        for episode in read_robot_dataset(os.path.dirname(folder)).episodes:
            for path in (episode.table, *(place.path for place in episode.videos.values())):
                assert not os.path.isabs(path), path
                assert ".." not in path.split("/"), path


def _robot_infos() -> Sequence[bytes]:
    numbers = {name: {"dtype": "int64", "shape": [1]} for name in INDEX_COLUMNS}
    video = {"dtype": "video", "shape": [4, 4, 3], "info": {"video.is_depth_map": False}}
    info = {
        "codebase_version": "v2.1",
        "fps": 10,
        "total_frames": 7,
        "chunks_size": 1,
        "features": {**numbers, "top": video},
    }
    paths = {
        "data_path": "data/{episode_chunk:03d}/{episode_index:06d}.parquet",
        "video_path": "{video_key}/{episode_index}.mp4",
    }
    return [json.dumps({**info, **paths}).encode()]


def run_annotations(data: bytes) -> None:
    """An annotation file of each format, with one image beside it: every entry has a key, and is read or refused."""
    files = {"coco": "c/annotations/a_val.json", "voc": "v/Annotations/a.xml", "yolo": "y/labels/a.txt"}
    files |= {"labelme": "l/images/a.json", "sa1b": "m/images/a.json", "kitti": "k/label_2/a.txt"}
    files |= {"cvat": "w/annotations.xml", "labelstudio": "t/project.json", "vqa": "q/questions.json"}
    files |= {"kaldi": "x/transcript/a.txt"}
    for format_name, name in {**files, "speech": "s/a.trans.txt"}.items():
        path = os.path.join(work_folder(), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_file(name, data)
        top = name.split("/")[0]
        for image in ("val/a.png", "JPEGImages/a.png", "images/a.png", "image_2/a.png", "1.png", "a.wav"):
            os.makedirs(os.path.dirname(os.path.join(work_folder(), top, image)), exist_ok=True)
            write_file(f"{top}/{image}", b"")
        _find_and_read(format_name, os.path.join(work_folder(), top))


def _find_and_read(format_name: str, root: str) -> None:
    importer = importers.get_importer(format_name)
    importer.recognise(root)
    with suppress(WdsctlError), importer.open(root, {}) as source:
        assert isinstance(source, importers_protocol.DescribedSource)
        source.describe()
        for number, entry in zip(range(3), source.entries(), strict=False):
            assert entry.key
            with suppress(WdsctlError):
                source.read(number)


def _annotations() -> Sequence[bytes]:
    box = {"image_id": 1, "id": 2, "category_id": 1, "bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 1, 2, 2]]}
    segments = {"image_id": 1, "file_name": "a.png", "segments_info": [{"id": 1, "category_id": 1}]}
    content = {
        "images": [{"id": 1, "file_name": "a.png", "width": 4, "height": 4}],
        "annotations": [box, {"image_id": 1, "id": 2, "caption": "a"}, segments],
        "categories": [{"id": 1, "name": "cat", "supercategory": "x"}],
    }
    xml = b"<annotation><size><width>4</width><height>4</height></size><object><name>a</name><bndbox><xmin>1</xmin>"
    return [
        json.dumps(content).encode(),
        xml + b"<ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>",
        b"0 0.5 0.5 0.1 0.1\n1 0 0 0.5 0.5 1 1\n",
        b"a HELLO\nb THERE\n",
        *_tool_exports(),
    ]


def _tool_exports() -> Sequence[bytes]:
    """Labels of one picture, as annotation tools and others than COCO write them."""
    shapes = [{"label": "a", "points": [[0, 0], [2, 2]], "shape_type": "circle"}, {"label": "b", "points": [[0, 1]]}]
    value = {"x": 1, "y": 2, "width": 3, "height": 4, "rotation": 9, "rectanglelabels": ["a"]}
    results = [
        {"original_width": 4, "original_height": 4, "value": value},
        {"original_width": 4, "original_height": 4, "value": {"points": [[1, 2], [3, 4]], "polygonlabels": ["b"]}},
        {"value": {"choices": ["c"]}},
    ]
    tasks = [{"data": {"image": "/data/upload/1/a.png"}, "annotations": [{"result": results}]}]
    question = {"image_id": 1, "question_id": 2, "question": "a?"}
    vqa = {"data_subtype": "val2014", "questions": [question]}
    cvat = b"<annotations><version>1.1</version><meta></meta><image name='a.png' width='4' height='4'>"
    return [
        json.dumps({"shapes": shapes, "imagePath": "a.png", "imageWidth": 4, "imageHeight": 4}).encode(),
        json.dumps({"image": {"file_name": "a.png"}, "annotations": [{"bbox": [0, 0, 1, 1], "area": 1}]}).encode(),
        json.dumps(tasks).encode(),
        json.dumps(vqa).encode(),
        b"BAC009S0002W0122 \xe8\x80\x8c\na b\n",
        b"Car 0 0 -1.5 1 2 3 4 1 1 3 -1 1 46 -1\n",
        cvat + b"<box label='a' xtl='0' ytl='0' xbr='2' ybr='2'/></image></annotations>",
    ]


def run_conversation(data: bytes) -> None:
    """Every image of an accepted conversation has one position, in order."""
    with suppress(WdsctlError):
        messages = normalize_conversation(data, images=[1, 2]).messages
        image_order = [item["image"] for message in messages for item in message["content"] if item["type"] == "image"]
        if image_order != [1, 2]:
            raise AssertionError(f"the images are at {image_order}")


def _conversations() -> Sequence[bytes]:
    turns = [{"from": "human", "value": "<image> and <image>"}, {"from": "gpt", "value": "yes"}]
    content = [{"type": "image_url", "image_url": {"url": "a.jpg"}}, {"type": "text", "text": "<image> hi"}]
    calls = [{"from": "function_call", "value": '{"name": "x"}'}, {"role": "tool", "content": "y"}]
    return [
        json.dumps(turns).encode(),
        json.dumps({"messages": [{"role": "user", "content": content}], "system": "z", "tools": "[]"}).encode(),
        json.dumps({"conversations": [*turns, *calls]}).encode(),
        b'{"question": "who?", "answer": "me"}',
    ]


def run_document(data: bytes) -> None:
    """Every image of an accepted document has one place, in order, also after the names of parts are in the places."""
    with suppress(WdsctlError):
        found = normalize_document(data, [1, 2])
        raw = json.loads(data)
        if [item for item in found if not isinstance(item, str)] != [1, 2]:
            raise AssertionError(f"the images are at {found}")
        if isinstance(raw, dict) and normalize_document(name_images(raw, ["0.png", "1.png"]), [1, 2]) != found:
            raise AssertionError("the document differs after its images have names")


def _documents() -> Sequence[bytes]:
    info = [{"image_name": f"{i}.jpg", "matched_text_index": 1 - i} for i in range(2)]
    content = ["a", {"type": "image", "image": "x.png"}, {"image_url": {"url": "y.png"}}, {"type": "text", "text": "b"}]
    return [
        json.dumps({"images": ["x.jpg", None, "y.jpg"], "texts": [None, "a", None]}).encode(),
        json.dumps({"text_list": ["a", "b"], "image_info": info}).encode(),
        json.dumps({"content": content}).encode(),
        json.dumps({"sequence": [{"type": "image"}, "a", {"type": "image"}], "images": ["x.jpg", "y.jpg"]}).encode(),
    ]


def run_sniff(data: bytes) -> None:
    assert sniff(data).kind


def _heads() -> Sequence[bytes]:
    return [b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WAVE", b"PK\x03\x04", b"{}", *_tars()[:1]]


TARGETS: dict[str, Target] = {
    "tar": Target(run_tar, _tars),
    "jsonl": Target(run_jsonl),
    "in_place": Target(run_in_place, _in_place_shards),
    "dataset_yaml": Target(run_dataset_yaml),
    "split_yaml": Target(run_split_yaml),
    "blend": Target(run_blend),
    "state": Target(run_state),
    "checkpoint": Target(run_checkpoint, _states),
    "offsets": Target(run_offsets, _offsets),
    "catalog": Target(run_catalog, _catalogs),
    "ledger": Target(run_ledger, _ledgers),
    "column": Target(run_column, _columns),
    "keyframes": Target(run_keyframes, _keyframes),
    "reference": Target(run_reference),
    "name": Target(run_name),
    "output": Target(run_output),
    "key_list": Target(run_key_list),
    "importers": Target(run_importers, _indexes),
    "lerobot": Target(run_lerobot, _robot_infos),
    "annotations": Target(run_annotations, _annotations),
    "sniff": Target(run_sniff, _heads),
    "conversation": Target(run_conversation, _conversations),
    "document": Target(run_document, _documents),
    **CONTAINER_TARGETS,
}


def inputs_of(name: str) -> list[bytes]:
    """The initial inputs of a target: valid inputs, and former findings."""
    seeds = [path.read_bytes() for path in sorted((SEEDS / name).glob("*"))]
    return [*TARGETS[name].sound(), *seeds, b""]
