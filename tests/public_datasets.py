"""Small datasets with the files, names and fields of datasets as people download them.

Each function writes one into a folder. All values are invented; every picture has other bytes.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from tests.core.media_files import a_wav

SIZE = (32, 24)  # width and height of all pictures


def picture(number: int, form: str = "JPEG") -> bytes:
    """A picture of 32 x 24 pixels. Other numbers have other bytes."""
    pixels = np.random.default_rng(number).integers(0, 255, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, form)
    return data.getvalue()


def sound(number: int) -> bytes:
    """A WAV file. Other numbers have other bytes: one sample of the recording differs."""
    data = a_wav()
    return data[:-2] + number.to_bytes(2, "little")


@cache
def _coded(form: str, codec: str, *, is_video: bool) -> bytes:
    data = io.BytesIO()
    with av.open(data, "w", format=form) as out:
        if is_video:
            stream: Any = out.add_stream(codec, rate=8)
            stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
            frames: list[Any] = [
                av.VideoFrame.from_ndarray(np.full((24, 32, 3), each, np.uint8), "rgb24") for each in range(4)
            ]
        else:
            stream = out.add_stream(codec, rate=16_000)
            frames = [av.AudioFrame.from_ndarray(np.zeros((1, 1152), np.int16), "s16", "mono")]
            frames[0].sample_rate = 16_000
        for frame in frames:
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return data.getvalue()


def video(number: int) -> bytes:
    """An AVI file. Bytes after its end, which readers ignore, make it different from others."""
    return _coded("avi", "mpeg4", is_video=True) + number.to_bytes(4, "little")


def mp3(number: int) -> bytes:
    """An MP3 file, different from those of other numbers at its end."""
    return _coded("mp3", "mp3", is_video=False) + number.to_bytes(4, "little")


def put(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def put_json(path: Path, value: Any) -> None:
    put(path, json.dumps(value))


def put_lines(path: Path, lines: Iterable[str]) -> None:
    put(path, "".join(f"{line}\n" for line in lines))


def a_box(number: int) -> list[float]:
    """left, top, width, height of an object, in pixels."""
    return [1.5 + number % 3, 2.0, 5.0 + number % 4, 6.0]


def _polygon(box: list[float]) -> list[float]:
    left, top, width, height = box
    return [left, top, left + width, top, left + width, top + height]


def lvis(root: Path) -> None:
    """LVIS v1: the record of an image has the URL of COCO's file, but no file name."""
    for split, numbers in (("train", range(4)), ("val", range(4, 6))):
        for i in numbers:
            put(root / f"{split}2017" / f"{i:012d}.jpg", picture(i))
        images = [
            {
                "id": i,
                "width": SIZE[0],
                "height": SIZE[1],
                "license": 1,
                "date_captured": "2013-11-14 17:02:52",
                "coco_url": f"http://images.example.org/{split}2017/{i:012d}.jpg",
                "flickr_url": f"http://farm.example.org/{i}_z.jpg",
                "not_exhaustive_category_ids": [],
                "neg_category_ids": [2],
            }
            for i in numbers
        ]
        annotations = [
            {
                "id": 10 * i + j,
                "image_id": i,
                "category_id": 1 + j,
                "bbox": a_box(i),
                "area": 30.5,
                "segmentation": [_polygon(a_box(i))],
            }
            for i in numbers
            for j in range(2)
        ]
        categories = [
            {
                "id": i,
                "name": name,
                "synset": f"{name}.n.01",
                "synonyms": [name],
                "def": f"a {name}",
                "frequency": "c",
                "image_count": 2,
                "instance_count": 3,
            }
            for i, name in ((1, "aerosol_can"), (2, "alarm_clock"))
        ]
        document = {"info": {}, "licenses": [], "images": images, "annotations": annotations, "categories": categories}
        put_json(root / "annotations" / f"lvis_v1_{split}.json", document)


def sa1b(root: Path, count: int = 6) -> None:
    """SA-1B: a JSON file of masks for each picture, in the folder of an unpacked tar."""
    for i in range(count):
        put(root / f"sa_{i}.jpg", picture(i))
        image = {"image_id": i, "width": SIZE[0], "height": SIZE[1], "file_name": f"sa_{i}.jpg"}
        annotations = [
            {
                "id": 100 * i + j,
                "segmentation": {"size": [SIZE[1], SIZE[0]], "counts": "0" * (j + 1) + "P1"},
                "bbox": a_box(i + j),
                "area": 12,
                "predicted_iou": 0.9,
                "stability_score": 0.95,
                "crop_box": [0.0, 0.0, 32.0, 24.0],
                "point_coords": [[3.0, 4.0]],
            }
            for j in range(2)
        ]
        put_json(root / f"sa_{i}.json", {"image": image, "annotations": annotations})


def labelme(root: Path) -> None:
    """LabelMe: a JSON file of shapes beside each picture; the last picture has none."""
    for i in range(6):
        put(root / f"{i:04d}.jpg", picture(i))
        left, top, width, height = a_box(i)
        shapes: list[dict[str, Any]] = [
            {
                "label": "cat" if i % 2 else "dog",
                "points": [[left, top], [left + width, top + height]],
                "group_id": None,
                "description": "",
                "shape_type": "rectangle",
                "flags": {},
                "mask": None,
            },
            {
                "label": "tree",
                "points": [[1.0, 2.0], [9.5, 2.0], [5.0, 8.0]],
                "group_id": None,
                "description": "",
                "shape_type": "polygon",
                "flags": {},
                "mask": None,
            },
        ]
        document: dict[str, Any] = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imagePath": f"{i:04d}.jpg",
            "imageData": None,
            "imageHeight": SIZE[1],
            "imageWidth": SIZE[0],
        }
        if i < 5:
            put(root / f"{i:04d}.json", json.dumps(document, indent=2))


def label_studio(root: Path) -> None:
    """Label Studio's JSON export of boxes, beside the folder of uploaded files."""
    tasks = []
    for i in range(6):
        name = f"{i:08x}-photo_{i}.jpg"
        put(root / "upload" / "1" / name, picture(i))
        left, top, width, height = a_box(i)
        result = {
            "id": f"r{i}",
            "type": "rectanglelabels",
            "from_name": "label",
            "to_name": "image",
            "origin": "manual",
            "original_width": SIZE[0],
            "original_height": SIZE[1],
            "image_rotation": 0,
            "value": {
                "x": left / SIZE[0] * 100,
                "y": top / SIZE[1] * 100,
                "width": width / SIZE[0] * 100,
                "height": height / SIZE[1] * 100,
                "rotation": 0,
                "rectanglelabels": ["cat" if i % 2 else "dog"],
            },
        }
        annotation = {
            "id": 50 + i,
            "completed_by": 1,
            "result": [result] if i < 5 else [],
            "was_cancelled": False,
            "ground_truth": False,
            "created_at": "2025-01-01T10:00:00.000000Z",
            "updated_at": "2025-01-01T10:00:00.000000Z",
            "lead_time": 3.5,
            "prediction": {},
            "result_count": 1,
            "task": i + 1,
            "project": 1,
        }
        tasks.append(
            {
                "id": i + 1,
                "annotations": [annotation],
                "file_upload": name,
                "drafts": [],
                "predictions": [],
                "data": {"image": f"/data/upload/1/{name}"},
                "meta": {},
                "created_at": "2025-01-01T09:00:00.000000Z",
                "updated_at": "2025-01-01T10:00:00.000000Z",
                "inner_id": i + 1,
                "total_annotations": 1,
                "project": 1,
            }
        )
    put_json(root / "project-1-at-2025-01-01-10-00-abcdef12.json", tasks)


def cvat(root: Path) -> None:
    """CVAT for images 1.1: one annotations.xml and the folder `images`."""
    entries = []
    for i in range(6):
        put(root / "images" / f"{i:04d}.jpg", picture(i))
        left, top, width, height = a_box(i)
        box = (
            f'<box label="{"cat" if i % 2 else "dog"}" source="manual" occluded="{i % 2}" xtl="{left:.2f}" '
            f'ytl="{top:.2f}" xbr="{left + width:.2f}" ybr="{top + height:.2f}" z_order="0">'
            f'<attribute name="age">{i}</attribute></box>'
            '<polygon label="tree" source="manual" occluded="0" points="1.00,2.00;9.50,2.00;5.00,8.00" z_order="1">'
            "</polygon>"
        )
        entries.append(
            f'<image id="{i}" name="{i:04d}.jpg" width="{SIZE[0]}" height="{SIZE[1]}">{box if i < 5 else ""}</image>'
        )
    meta = (
        "<meta><job><id>1</id><size>6</size><labels><label><name>cat</name><color>#ff0000</color><type>any</type>"
        "<attributes></attributes></label></labels></job><dumped>2025-01-01 10:00:00+00:00</dumped></meta>"
    )
    text = "\n".join(
        ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "<version>1.1</version>", meta, *entries]
    )
    put(root / "annotations.xml", f"{text}\n</annotations>\n")


def labelbox(root: Path) -> None:
    """Labelbox's NDJSON export, beside the pictures."""
    rows = []
    for i in range(6):
        put(root / "images" / f"{i:04d}.jpg", picture(i))
        left, top, width, height = a_box(i)
        one: dict[str, Any] = {
            "feature_id": f"f{i}",
            "feature_schema_id": "s1",
            "name": "cat" if i % 2 else "dog",
            "value": "cat" if i % 2 else "dog",
            "annotation_kind": "ImageBoundingBox",
            "classifications": [],
            "bounding_box": {"top": top, "left": left, "height": height, "width": width},
        }
        label = {
            "label_kind": "Default",
            "version": "1.0.0",
            "id": f"l{i}",
            "label_details": {"created_at": "2025-01-01T10:00:00Z", "is_benchmark_reference": False},
            "annotations": {"objects": [one], "classifications": [], "relationships": []},
        }
        rows.append(
            {
                "data_row": {
                    "id": f"d{i}",
                    "global_key": f"{i:04d}.jpg",
                    "external_id": f"{i:04d}.jpg",
                    "row_data": f"https://storage.example.org/{i:04d}.jpg?token=1",
                    "details": {"dataset_id": "x", "dataset_name": "pets", "created_at": "2025-01-01T09:00:00Z"},
                },
                "media_attributes": {"height": SIZE[1], "width": SIZE[0], "mime_type": "image/jpeg"},
                "attachments": [],
                "metadata_fields": [],
                "projects": {"p1": {"name": "pets", "labels": [label], "project_details": {"ontology_id": "o"}}},
            }
        )
    put_lines(root / "export.ndjson", map(json.dumps, rows))


def doccano(root: Path) -> None:
    """doccano's JSONL export of a task of spans."""
    rows = [
        {"id": i, "text": f"Ann met Bob {i} times", "label": [[0, 3, "PER"], [8, 11, "PER"]], "Comments": []}
        for i in range(1, 7)
    ]
    put_lines(root / "admin.jsonl", map(json.dumps, rows))


_SPACE = "1.65 1.67 3.64 -0.65 1.71 46.70 -1.59"  # dimensions, location and turn of a car


def kitti(root: Path) -> None:
    """KITTI's objects: `training` with labels and calibration, `testing` without labels."""
    for half, numbers in (("training", range(6)), ("testing", range(6, 8))):
        for i in numbers:
            put(root / half / "image_2" / f"{i:06d}.png", picture(i, "PNG"))
            put_lines(root / half / "calib" / f"{i:06d}.txt", [f"P{n}: " + "7.2e+02 " * 12 for n in range(4)])
            if half == "training":
                left, top, width, height = a_box(i)
                lines = [
                    f"Car 0.00 0 -1.58 {left:.2f} {top:.2f} {left + width:.2f} {top + height:.2f} {_SPACE}",
                    "DontCare -1 -1 -10 1.00 2.00 3.00 4.00 -1 -1 -1 -1000 -1000 -1000 -10",
                ]
                put_lines(root / half / "label_2" / f"{i:06d}.txt", lines)


def vqa(root: Path) -> None:
    """VQA v2: questions and annotations of two splits, with COCO's pictures."""
    for split, numbers in (("train", range(4)), ("val", range(4, 6))):
        for i in numbers:
            put(root / f"{split}2014" / f"COCO_{split}2014_{i:012d}.jpg", picture(i))
        about = {
            "info": {"version": "2.0"},
            "license": {"name": "x"},
            "data_type": "mscoco",
            "data_subtype": f"{split}2014",
        }
        pairs = [(i, 1000 * i + j) for i in numbers for j in range(2)]
        questions = [{"image_id": i, "question": f"What is number {q}?", "question_id": q} for i, q in pairs]
        annotations = [
            {
                "question_type": "what is",
                "multiple_choice_answer": f"thing {q}",
                "answers": [
                    {"answer": f"thing {q}", "answer_confidence": "yes", "answer_id": n + 1} for n in range(10)
                ],
                "image_id": i,
                "answer_type": "other",
                "question_id": q,
            }
            for i, q in pairs
        ]
        put_json(
            root / f"v2_OpenEnded_mscoco_{split}2014_questions.json",
            {**about, "task_type": "Open-Ended", "questions": questions},
        )
        put_json(root / f"v2_mscoco_{split}2014_annotations.json", {**about, "annotations": annotations})


CELEBA_ATTRIBUTES = ("5_o_Clock_Shadow", "Bald", "Smiling")


def celeba(root: Path) -> None:
    """CelebA: aligned pictures, and tables without the endings that tables have."""
    names = [f"{i:06d}.jpg" for i in range(1, 7)]
    for i, name in enumerate(names):
        put(root / "img_align_celeba" / name, picture(i))
    rows = [f"{name}  " + " ".join(f"{1 if (i + j) % 2 else -1:2d}" for j in range(3)) for i, name in enumerate(names)]
    put_lines(root / "list_attr_celeba.txt", ["6", " ".join(CELEBA_ATTRIBUTES) + " ", *rows])
    put_lines(root / "identity_CelebA.txt", [f"{name} {2880 + i // 2}" for i, name in enumerate(names)])
    put_lines(root / "list_eval_partition.txt", [f"{name} {min(2, max(0, i - 3))}" for i, name in enumerate(names)])
    put_lines(
        root / "list_bbox_celeba.txt",
        ["6", "image_id x_1 y_1 width height", *(f"{name}    95  71 226 313" for name in names)],
    )


def yolo_in_images(root: Path) -> None:
    """YOLO as unpacked zips have it: `images/images` and `labels/labels`."""
    for i in range(6):
        put(root / "images" / "images" / f"{i}.jpg", picture(i))
        put_lines(root / "labels" / "labels" / f"{i}.txt", [f"{i % 2} 0.5 0.5 0.25 0.3"])


def yolo_below_images(root: Path) -> None:
    """YOLO in a folder that is itself called images: `images/train/images` beside `images/train/labels`."""
    for split, numbers in (("train", range(4)), ("val", range(4, 6))):
        for i in numbers:
            put(root / "images" / split / "images" / f"{i}.jpg", picture(i))
            put_lines(root / "images" / split / "labels" / f"{i}.txt", [f"{i % 2} 0.5 0.5 0.25 0.3"])


SYNSETS = ("n01440764", "n01443537", "n01484850")


def imagenet_kaggle(root: Path) -> None:
    """ImageNet as Kaggle has it: class folders for training, and labels of val in a table."""
    data = root / "ILSVRC" / "Data" / "CLS-LOC"
    train = []
    for number, synset in enumerate(SYNSETS):
        for i in range(4):
            put(data / "train" / synset / f"{synset}_{i}.JPEG", picture(10 * number + i))
            train.append(f"{synset}_{i},{synset} 1 2 30 20")
    for i in range(1, 7):
        put(data / "val" / f"ILSVRC2012_val_{i:08d}.JPEG", picture(100 + i))
    put(data / "test" / "ILSVRC2012_test_00000001.JPEG", picture(200))
    put(root / "ILSVRC" / "Annotations" / "CLS-LOC" / "val" / "ILSVRC2012_val_00000001.xml", "<annotation/>")
    put_lines(
        root / "ILSVRC" / "ImageSets" / "CLS-LOC" / "val.txt", [f"ILSVRC2012_val_{i:08d} {i}" for i in range(1, 7)]
    )
    val = [f"ILSVRC2012_val_{i:08d},{SYNSETS[i % 3]} 1 2 30 20 " for i in range(1, 7)]
    put_lines(root / "LOC_val_solution.csv", ["ImageId,PredictionString", *val])
    put_lines(root / "LOC_train_solution.csv", ["ImageId,PredictionString", *train])
    put_lines(root / "LOC_synset_mapping.txt", [f"{synset} fish, a fish" for synset in SYNSETS])


def imagenet_flat(root: Path) -> None:
    """ImageNet with class folders for training, and flat pictures of val with the numbers of the devkit."""
    for number, synset in enumerate(SYNSETS):
        for i in range(4):
            put(root / "train" / synset / f"{synset}_{i}.JPEG", picture(10 * number + i))
    for i in range(1, 7):
        put(root / "val" / f"ILSVRC2012_val_{i:08d}.JPEG", picture(100 + i))
    put_lines(root / "ILSVRC2012_validation_ground_truth.txt", [str(1 + i % 3) for i in range(1, 7)])


def imagenet_folders(root: Path) -> None:
    """ImageNet with class folders for training and val."""
    for split, first in (("train", 0), ("val", 100)):
        for number, synset in enumerate(SYNSETS):
            for i in range(4):
                put(root / split / synset / f"{synset}_{i}.JPEG", picture(first + 10 * number + i))


def ucf101(root: Path) -> None:
    """UCF101: class folders of videos, and three lists of train and test for each."""
    names = ("ApplyEyeMakeup", "Archery")
    paths = [f"{name}/v_{name}_g{i:02d}_c01.avi" for name in names for i in range(1, 5)]
    for i, path in enumerate(paths):
        put(root / "UCF-101" / path, video(i))
    lists = root / "ucfTrainTestlist"
    put_lines(lists / "classInd.txt", [f"{i} {name}" for i, name in enumerate(names, 1)])
    for fold in (1, 2, 3):
        tested = [path for path in paths if f"_g{fold:02d}_" in path]
        put_lines(
            lists / f"trainlist{fold:02d}.txt",
            [f"{path} {names.index(path.split('/')[0]) + 1}" for path in paths if path not in tested],
        )
        put_lines(lists / f"testlist{fold:02d}.txt", tested)


def hmdb51(root: Path) -> None:
    """HMDB51: class folders of videos, and a list for each class and split."""
    for number, name in enumerate(("brush_hair", "cartwheel")):
        files = [f"{name}_{i}.avi" for i in range(4)]
        for i, file in enumerate(files):
            put(root / "hmdb51" / name / file, video(10 * number + i))
        for fold in (1, 2, 3):
            put_lines(
                root / "testTrainMulti_7030_splits" / f"{name}_test_split{fold}.txt",
                [f"{file} {(0, 1, 1, 2)[(i + fold) % 4]} " for i, file in enumerate(files)],
            )


def kaldi(root: Path) -> None:
    """A data folder of Kaldi: wav.scp, text, utt2spk, spk2utt."""
    keys = [f"spk{i % 2}-utt{i}" for i in range(6)]
    for i, key in enumerate(keys):
        put(root / "wavs" / f"{key}.wav", sound(i))
    put_lines(root / "wav.scp", [f"{key} wavs/{key}.wav" for key in keys])
    put_lines(root / "text", [f"{key} WORD NUMBER {i}" for i, key in enumerate(keys)])
    put_lines(root / "utt2spk", [f"{key} {key[:4]}" for key in keys])
    put_lines(root / "spk2utt", [f"spk{i} " + " ".join(k for k in keys if k.startswith(f"spk{i}")) for i in (0, 1)])


def aishell(root: Path) -> None:
    """AISHELL-1: WAV files by split and speaker, and one transcript of all."""
    lines = []
    for split, numbers in (("train", range(4)), ("dev", range(4, 6)), ("test", range(6, 8))):
        for i in numbers:
            key = f"BAC009S{i // 2:04d}W{i:04d}"
            put(root / "wav" / split / f"S{i // 2:04d}" / f"{key}.wav", sound(i))
            lines.append(f"{key} 而 对 楼市 {i}")
    put_lines(root / "transcript" / "aishell_transcript_v0.8.txt", lines)


_COMMON_VOICE = "client_id path sentence_id sentence sentence_domain up_votes down_votes age gender accents variant"


def common_voice(root: Path) -> None:
    """Common Voice: `clips`, tables of three splits, and the other tables of the published folder."""

    def table(name: str, numbers: Iterable[int]) -> None:
        rows = []
        for i in numbers:
            put(root / "clips" / f"common_voice_en_{i}.mp3", mp3(i))
            row = [f"c{i}", f"common_voice_en_{i}.mp3", f"s{i}", f"Sentence number {i}.", "", "2", "0", "", "", "", ""]
            rows.append("\t".join([*row, "en", ""]))
        put_lines(root / f"{name}.tsv", ["\t".join([*_COMMON_VOICE.split(), "locale", "segment"]), *rows])

    table("train", range(4))
    table("dev", range(4, 6))
    table("test", range(6, 8))
    table("validated", range(9))
    table("invalidated", range(9, 10))
    table("other", range(10, 12))
    put_lines(
        root / "clip_durations.tsv",
        ["clip\tduration[ms]", *(f"common_voice_en_{i}.mp3\t{4000 + i}" for i in range(12))],
    )
    put_lines(root / "reported.tsv", ["sentence_id\tsentence\tlocale\treason", "s1\tSentence number 1.\ten\toffensive"])
    head = "sentence_id\tsentence\tsentence_domain\tsource\tis_used\tclips_count"
    put_lines(root / "validated_sentences.tsv", [head, *(f"s{i}\tSentence number {i}.\t\tx\t1\t1" for i in range(3))])
    put_lines(
        root / "unvalidated_sentences.tsv", ["sentence_id\tsentence\tsentence_domain\tsource", "s99\tNo.\t\tself"]
    )


def lhotse(root: Path) -> None:
    """Manifests of lhotse: recordings and supervisions, with the files that they name."""
    recordings, supervisions = [], []
    for i in range(6):
        put(root / "audio" / f"rec{i}.wav", sound(i))
        recordings.append(
            {
                "id": f"rec{i}",
                "sources": [{"type": "file", "channels": [0], "source": f"audio/rec{i}.wav"}],
                "sampling_rate": 16_000,
                "num_samples": 1_600,
                "duration": 0.1,
                "channel_ids": [0],
            }
        )
        supervisions.append(
            {
                "id": f"sup{i}",
                "recording_id": f"rec{i}",
                "start": 0.0,
                "duration": 0.1,
                "channel": 0,
                "text": f"words {i}",
                "language": "English",
                "speaker": f"s{i % 2}",
            }
        )
    put_lines(root / "recordings.jsonl", map(json.dumps, recordings))
    put_lines(root / "supervisions.jsonl", map(json.dumps, supervisions))


def parallel_texts(root: Path) -> None:
    """Multi30k: a file for each split and language, with a sentence in each line."""
    for split, number in (("train", 6), ("val", 3), ("test_2016_flickr", 3)):
        for language in ("de", "en", "pt_BR"):
            put_lines(root / f"{split}.{language}", [f"{split} {i} \u2028 in {language}" for i in range(number)])


def web_texts(root: Path) -> None:
    """Common Crawl's WET: records of pages, each compressed alone, after one about the file."""
    for number in range(2):
        records = []
        for page in range(-1, 3):
            kind = "warcinfo" if page < 0 else "conversion"
            text = f"Page {page} of {number}\r\n\r\nWARC/1.0\r\n".encode()
            url = f"WARC-Target-URI: http://localhost/{number}/{page}\r\n" if page >= 0 else ""
            head = f"WARC/1.0\r\nWARC-Type: {kind}\r\n{url}Content-Length: {len(text)}\r\n\r\n".encode()
            records.append(gzip.compress(head + text + b"\r\n\r\n"))
        put(root / f"CC-{number}.warc.wet.gz", b"".join(records))


DATASETS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        lvis,
        sa1b,
        labelme,
        label_studio,
        cvat,
        labelbox,
        doccano,
        kitti,
        vqa,
        celeba,
        yolo_in_images,
        yolo_below_images,
        imagenet_kaggle,
        imagenet_flat,
        imagenet_folders,
        ucf101,
        hmdb51,
        kaldi,
        aishell,
        common_voice,
        lhotse,
        parallel_texts,
        web_texts,
    )
}
