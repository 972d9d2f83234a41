"""Datasets and formats that no importer reads as they are meant: each is refused with a command that writes a table.

The command is one of Python, for the user to read and run. It keeps every label, and the command after it prepares the
table. A format that the user names (`--from`) is not refused.

Sources: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html; https://www.crcv.ucf.edu/data/UCF101.php;
https://serre.lab.brown.edu/hmdb51.html; https://lhotse.readthedocs.io/en/latest/corpus.html;
https://docs.labelbox.com/reference/export-image-annotations; https://image-net.org/challenges/LSVRC/2012/;
https://www.statmt.org/moses/ (parallel texts); https://commoncrawl.org/get-started (WET);
https://www.kaggle.com/datasets/vishnutheepb/msrvtt; https://ai.stanford.edu/~amaas/data/sentiment/ (the files and their
fields).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import partial

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import InputError, StorageDown, WdsctlError
from wdsctl.core.importers.common.folder_files import probe_folders, scan_folder
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.invocation import current_invocation
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.media.sniff import sniff
from wdsctl.core.split_rules.names import STANDARD_SPLITS
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

#: The ending of a text that is in a language: `de`, `pt_BR`, `eng_Latn`.
_LANGUAGE = re.compile("[a-z]{2,3}([-_][A-Za-z]{2,4})?")

_HEAD_BYTES = 1 << 12
_MAX_FOLDERS = 100  # below the source, that are searched
_TABLE = "wdsctl-table"  # the name of the tables that the lines write


def check_known_datasets(path: str) -> None:
    """Raise InputError WDS235 for a folder that is one of these datasets. Cost: lists it and the folders in it."""
    try:
        found = dict(_list_files(path))
    except StorageDown:
        raise
    except (OSError, WdsctlError):
        return  # the importers report the error
    if not found:
        return
    for check in _CHECKS:
        check(path, found)


def _list_files(root: str) -> Iterator[tuple[str, str]]:
    """Yield (name, path relative to the root) of the files at the top, and in the folders there."""
    for prefix, names in reversed(list(probe_folders(root, depth=1))):
        for name in names.files:
            if not prefix or name.endswith((".txt", ".jsonl", ".jsonl.gz", ".ndjson")):
                yield name, f"{prefix}{name}"


def _refuse(root: str, what: str, statements: list[str], table: str, *options: str) -> None:
    """Raise the error with the commands. `statements`: of Python; they write `table` below `root`."""
    command = shell_command(current_invocation("convert", ())[0], os.path.join(root, table), "DEST", *options)
    script = "; ".join(
        ["import csv, gzip, json", "from pathlib import Path", f"root = Path({_quote(root)})", *statements]
    )
    raise InputError(
        f"the source is {what}",
        hint=f"write a table: `python -c {shlex.quote(script)}`; then prepare the table: {command}",
        where=path_for_message(root),
        code="WDS235",
    )


def _quote(text: str) -> str:
    """A text as Python writes it, in double quotes: the shell has single ones around the statements."""
    return json.dumps(text)


def _rows_of(path: str) -> str:
    """Python's words of the lines of a file that are not blank."""
    return f"[line.split() for line in open(root / {_quote(path)}) if line.strip()]"


def _write_csv(head: str, rows: str) -> str:
    return f'csv.writer(open(root / "{_TABLE}.csv", "w", newline="")).writerows([{head}, *{rows}])'


def _write_lines(rows: str) -> str:
    return f'(root / "{_TABLE}.jsonl").open("w").writelines(json.dumps(row) + "\\n" for row in {rows})'


def _check_celeba(root: str, found: dict[str, str]) -> None:
    name = "list_attr_celeba.txt"
    pictures = _find_folder(root, "img_align_celeba") or _find_folder(root, "img_celeba")
    if name not in found or not pictures:
        return
    statements = [f"_, names, *rows = {_rows_of(found[name])}"]
    head, values = ['"file"', "*names"], [f"{_quote(f'{pictures}/')} + row[0]", "*row[1:]"]
    if (identity := found.get("identity_CelebA.txt")) is not None:
        statements.append(f"identity = dict({_rows_of(identity)})")
        head, values = [*head, '"identity"'], [*values, "identity[row[0]]"]
    if (partition := found.get("list_eval_partition.txt")) is not None:
        statements.append(f"partition = dict({_rows_of(partition)})")
        head, values = [*head, '"split"'], [*values, '("train", "val", "test")[int(partition[row[0]])]']
    statements.append(_write_csv(f"[{', '.join(head)}]", f"([{', '.join(values)}] for row in rows)"))
    what = "CelebA, whose labels are in text files with a count above the header"
    _refuse(root, what, statements, f"{_TABLE}.csv", "--sample-type", "CrudeSample")


def _find_folder(root: str, name: str) -> str:
    """The path of a folder, relative to the root, at the top or in a folder there; empty if there is none."""
    top = scan_folder(root, root).folders
    inner = [each for each in top[:_MAX_FOLDERS] if name in scan_folder(os.path.join(root, each), root).folders]
    return name if name in top else f"{inner[0]}/{name}" if inner else ""


_THREE_SPLITS = "whose lists make three different splits; the command takes the first, `--from imagefolder` none"
_VIDEO_TYPE = ("--sample-type", "VideoSample", "--field-map", "video=avi,text=json[label_name]")
_VIDEO_HEAD = '["file", "split", "label", "label_name"]'


def _check_ucf101(root: str, found: dict[str, str]) -> None:
    lists = [name for name in ("classInd.txt", "trainlist01.txt", "testlist01.txt") if name in found]
    videos = _find_folder(root, "UCF-101")
    if len(lists) < 3 or not videos:
        return
    train, test = (_rows_of(found[name]) for name in lists[1:])
    values = f'{_quote(f"{videos}/")} + path, split, names.index(path.split("/")[0]), path.split("/")[0]'
    statements = [
        f"names = [row[1] for row in {_rows_of(found[lists[0]])}]",
        f'lists = {{"train": {train}, "test": {test}}}',
        _write_csv(_VIDEO_HEAD, f"([{values}] for split, rows in lists.items() for path, *_ in rows)"),
    ]
    _refuse(root, f"UCF101, {_THREE_SPLITS}", statements, f"{_TABLE}.csv", *_VIDEO_TYPE)


def _check_hmdb51(root: str, found: dict[str, str]) -> None:
    ending = "_test_split1.txt"
    lists = next((os.path.dirname(path) for name, path in found.items() if name.endswith(ending)), "")
    if not lists:
        return
    values = 'videos[video], ("", "train", "test")[int(mark)], label, names[label]'
    rows = "line.split() for line in open(path) if line.strip()"
    statements = [
        f'lists = sorted((root / {_quote(lists)}).glob("*{ending}"))',
        'videos = {path.name: path.relative_to(root) for path in root.rglob("*.avi")}',
        f"names = [path.name[:-{len(ending)}] for path in lists]",
        f"marks = [(label, row) for label, path in enumerate(lists) for row in ({rows})]",
        _write_csv(_VIDEO_HEAD, f"([{values}] for label, (video, mark) in marks)"),
    ]
    _refuse(root, f"HMDB51, {_THREE_SPLITS}", statements, f"{_TABLE}.csv", *_VIDEO_TYPE)


def _check_lhotse(root: str, found: dict[str, str]) -> None:
    kinds = [[path for name, path in found.items() if kind in name] for kind in ("recordings", "supervisions")]
    if not all(kinds):
        return
    recordings, supervisions = (each[0] for each in kinds)
    if b'"sources"' not in _head(root, recordings) or b'"recording_id"' not in _head(root, supervisions):
        return
    difference = 'each["duration"] - recordings[each["recording_id"]]["duration"]'
    statements = [
        'read = lambda name: map(json.loads, (gzip.open if name.endswith("gz") else open)(root / name, "rt"))',
        f'recordings = {{each["id"]: each for each in read({_quote(recordings)})}}',
        f"texts = list(read({_quote(supervisions)}))",
        f'assert all(each["start"] == 0 and abs({difference}) < 0.1 for each in texts), "cut the segments"',
        _write_lines('({"audio": recordings[each["recording_id"]]["sources"][0]["source"], **each} for each in texts)'),
    ]
    what = (
        "manifests of lhotse, which the command joins. If texts are parts of recordings, cut them with lhotse before: "
        "`CutSet.trim_to_supervisions()` and `save_audios`"
    )
    _refuse(root, what, statements, f"{_TABLE}.jsonl", "-O", "key=id")


def _head(root: str, path: str) -> bytes:
    from wdsctl.core.importers.common.compressed import open_text_file

    with open_text_file(os.path.join(root, path)) as file:
        return file.read(1 << 14)


def _check_labelbox(root: str, found: dict[str, str]) -> None:
    exports = [path for name, path in found.items() if name.endswith((".ndjson", ".jsonl"))]
    heads = ((path, read_head(os.path.join(root, path))) for path in exports)
    path = next((path for path, head in heads if head.startswith(b'{"data_row"') and b'"media_attributes"' in head), "")
    if not path:
        return
    labels = '[label for project in row["projects"].values() for label in project["labels"]]'
    objects = '[each for label in labels(row) for each in label["annotations"]["objects"] if "bounding_box" in each]'
    box = '[each["bounding_box"][side] for side in ("left", "top", "width", "height")]'
    picture = 'str(pictures[row["data_row"]["external_id"].split("/")[-1]])'
    facts = '"box_format": "xywh", "label_names": [each["name"] for each in objects(row)], "labelbox": row'
    statements = [
        'pictures = {path.name: path.relative_to(root) for path in root.rglob("*") if path.is_file()}',
        f"labels = lambda row: {labels}[:1]",
        f"objects = lambda row: {objects}",
        f"rows = map(json.loads, open(root / {_quote(path)}))",
        _write_lines(f'({{"file": {picture}, "boxes": [{box} for each in objects(row)], {facts}}} for row in rows)'),
    ]
    what = "an export of Labelbox, which has URLs of the pictures; the command takes boxes, and finds pictures by name"
    _refuse(root, what, statements, f"{_TABLE}.jsonl")


def _check_msrvtt(root: str, found: dict[str, str]) -> None:
    infos = sorted(path for name, path in found.items() if name.endswith("_videodatainfo.json"))
    if not infos or b'"video_id"' not in _head(root, infos[0]):
        return
    file = '"file": str(videos.get(each["video_id"], each["video_id"] + ".mp4"))'
    texts = '"captions": [row["caption"] for row in texts[each["video_id"]]]'
    ids = '"sen_ids": [row["sen_id"] for row in texts[each["video_id"]]]'
    split = '"split": {"validate": "val"}.get(each["split"], each["split"])'
    statements = [
        f"infos = [json.load(open(root / name)) for name in json.loads({_quote(json.dumps(infos))})]",
        'videos = {path.stem: path.relative_to(root) for path in root.rglob("*.mp4")}',
        'texts = {each["video_id"]: [] for info in infos for each in info["videos"]}',
        'added = [texts[row["video_id"]].append(row) for info in infos for row in info["sentences"]]',
        _write_lines(f'({{**each, {file}, {texts}, {ids}, {split}}} for info in infos for each in info["videos"])'),
    ]
    what = "MSR-VTT, whose files list videos and sentences, which the command joins"
    types = ("--sample-type", "VideoSample", "--field-map", "video=mp4,text=json[captions][0]")
    _refuse(root, what, statements, f"{_TABLE}.jsonl", "-O", "segments=whole", *types)


def _check_aclimdb(root: str, found: dict[str, str]) -> None:
    if not {"urls_pos.txt", "urls_neg.txt"} <= found.keys() or not _find_folder(root, "pos"):
        return
    facts = '"label_name": path.parent.name, "rating": int(path.stem.split("_")[1])'
    url = '"url": urls[path.parts[-3:-1]][int(path.stem.split("_")[0])]'
    label = '{"label": int(path.parent.name == "pos"), "split": path.parts[-3]}'
    named = 'path.parent.name != "unsup"'
    key = '"id": "/".join([*path.parts[-3:-1], path.stem])'
    statements = [
        'lists = {(path.parent.name, path.stem[5:]): path for path in root.glob("*/urls_*.txt")}',
        'urls = {key: path.read_text("utf-8").splitlines() for key, path in lists.items()}',
        'paths = sorted(path for key in urls for path in (root / "/".join(key)).glob("*_*.txt"))',
        _write_lines(
            f'({{{key}, "text": path.read_text("utf-8"), {facts}, {url}, **({label} if {named} else {{}})}} '
            "for path in paths)"
        ),
    ]
    what = "the reviews of aclImdb, whose labels are in the names of folders and files"
    _refuse(root, what, statements, f"{_TABLE}.jsonl", "-O", "key=id", "-O", "files=", "--sample-type", "CrudeSample")


def _check_devkit(root: str, found: dict[str, str]) -> None:
    name = "ILSVRC2012_validation_ground_truth.txt"
    if (
        name not in found
        or "val" not in scan_folder(root, root).folders
        or scan_folder(os.path.join(root, "val"), root).folders
    ):
        return
    command = shell_command(current_invocation("convert", ())[0], root, "DEST", "--from", "imagefolder")
    raise InputError(
        f"the labels of val/ are the numbers in {name}, which only meta.mat of ImageNet's development kit explains",
        hint="move each picture of val/ into a folder that is called like its class in train/, as "
        f"torchvision.datasets.ImageNet does; or leave val/ out: {command}",
        where=path_for_message(root),
        code="WDS235",
    )


def _check_parallel_texts(root: str, found: dict[str, str]) -> None:
    """Refuse `train.de` and `train.en`, whose lines belong together. By name, each is a part of a sample."""
    if source_files.is_remote(root):
        return  # the command reads local files
    by_stem: dict[str, list[str]] = {}
    for path in found.values():
        stem, _, language = path.rpartition(".")
        if stem and "/" not in stem and _LANGUAGE.fullmatch(language) and language not in FORMAT_BY_EXTENSION:
            by_stem.setdefault(stem, []).append(language)
    pairs = {stem: sorted(each) for stem, each in by_stem.items() if len(each) > 1}
    smallest = min(pairs, key=lambda stem: os.path.getsize(os.path.join(root, f"{stem}.{pairs[stem][0]}")), default="")
    lines = {_count_lines(os.path.join(root, f"{smallest}.{each}")) for each in pairs.get(smallest, ())}
    if len(lines) != 1 or min(lines) < 2:
        return
    words = {stem: re.split("[-_.]", stem.lower())[0] for stem in pairs}
    splits = {stem: STANDARD_SPLITS[word] for stem, word in words.items() if word in STANDARD_SPLITS}
    read = "open(root / (stem + '.' + each), encoding='utf-8', newline='\\n')".replace("'", '"')
    split = ', "split": splits[stem]' if len(splits) == len(pairs) else ""
    lengths = "{sum(1 for _ in file) for file in read(stem)}"
    statements = [
        f"texts = json.loads({_quote(json.dumps(pairs))})",
        f"splits = json.loads({_quote(json.dumps(splits))})",
        f"read = lambda stem: [{read} for each in texts[stem]]",
        f'assert all(len({lengths}) == 1 for stem in texts), "files of one name differ in their number of lines"',
        _write_lines(
            f'({{**dict(zip(texts[stem], (line.rstrip("\\r\\n") for line in lines))){split}}} '
            "for stem in texts for lines in zip(*read(stem)))"
        ),
    ]
    shown = " and ".join(path_for_message(f"{smallest}.{each}") for each in pairs[smallest][:2])
    what = f"parallel texts: {shown} have as many lines, which the command joins"
    _refuse(root, what, statements, f"{_TABLE}.jsonl", "--sample-type", "CrudeSample")


def _count_lines(path: str) -> int:
    """The number of lines of a file; 0 if it is not a text. Cost: reads the file."""
    with source_files.open_file(path) as file:
        head = file.read(_HEAD_BYTES)
        if sniff(head, source_files.stat_file(path).size).kind != "text":
            return 0
        lines, last = head.count(b"\n"), head[-1:]
        for block in iter(partial(file.read, 1 << 20), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def _check_web_archives(root: str, found: dict[str, str]) -> None:
    paths = [path for path in found.values() if re.search(r"\.(warc|wet|wat)(\.gz)?$", path)]
    heads = _head(root, paths[0]) if paths else b""
    if not heads.startswith(b"WARC/"):
        return
    if b"\nWARC-Type: conversion" not in heads:
        raise InputError(
            f"{pluralize(len(paths), 'web archive')} of many pages each, such as {path_for_message(paths[0])}",
            hint="extract the texts of the pages into a JSONL file, for example with the packages warcio and "
            "trafilatura, and prepare that file",
            where=path_for_message(root),
            code="WDS235",
        )
    pair = 'line.decode("utf-8", "replace").strip().split(": ", 1)'
    record = '(head, file.read(int(head["Content-Length"])), file.read(4))'
    statements = [
        "from itertools import takewhile",
        f'pairs = lambda lines: dict({pair} for line in lines if b": " in line)',
        "head_of = lambda file: pairs(takewhile(bytes.strip, iter(file.readline, None)))",
        f"read = lambda file: ({record} for head in iter(lambda: head_of(file), {{}}))",
        f'paths = sorted(root.glob("*.{"wet" if ".wet" in paths[0] else "warc"}*"))',
        'files = ((gzip.open if path.suffix == ".gz" else open)(path, "rb") for path in paths)',
        _write_lines(
            '({**head, "text": body.decode("utf-8", "replace")} for file in files for head, body, _ in read(file) '
            'if head["WARC-Type"] == "conversion")'
        ),
    ]
    what = f"web archives of texts, such as {path_for_message(paths[0])}: each has many pages, which the command lists"
    _refuse(root, what, statements, f"{_TABLE}.jsonl", "--sample-type", "TextSample", "--field-map", "text=json[text]")


_CHECKS = (
    _check_celeba,
    _check_ucf101,
    _check_hmdb51,
    _check_lhotse,
    _check_labelbox,
    _check_msrvtt,
    _check_aclimdb,
    _check_devkit,
    _check_parallel_texts,
    _check_web_archives,
)
