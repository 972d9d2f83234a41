"""Small datasets of which several tables describe the same files, in the schema that their publishers give.

Each function writes one into a folder. All values are invented; every medium has other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.public_datasets import picture, put, put_json, put_lines, sound, video


def put_csv(path: Path, head: str, rows: Iterable[Sequence[object]]) -> None:
    put_lines(path, [head, *(",".join(map(str, row)) for row in rows)])


def celeba_csv(root: Path) -> None:
    """CelebA as Kaggle has it: four tables, and the partition of the pictures as a number."""
    names = [f"{i:06d}.jpg" for i in range(1, 7)]
    for i, name in enumerate(names):
        put(root / "img_align_celeba" / "img_align_celeba" / name, picture(i))
    put_csv(
        root / "list_attr_celeba.csv",
        "image_id,5_o_Clock_Shadow,Bald,Smiling",
        ([name, 1 if i % 2 else -1, -1, 1 if i % 3 else -1] for i, name in enumerate(names)),
    )
    put_csv(
        root / "list_bbox_celeba.csv",
        "image_id,x_1,y_1,width,height",
        ([name, 95 + i, 71 + i, 226 + i, 313 + i] for i, name in enumerate(names)),
    )
    put_csv(
        root / "list_eval_partition.csv",
        "image_id,partition",
        ([name, i // 3] for i, name in enumerate([*names, ""]) if name),
    )
    put_csv(
        root / "list_landmarks_align_celeba.csv",
        "image_id,lefteye_x,lefteye_y,righteye_x,righteye_y",
        ([name, 1069 + i, 1109 + i, 1206 + i, 1111 + i] for i, name in enumerate(names)),
    )


def clotho(root: Path) -> None:
    for k, split in enumerate(("development", "evaluation")):
        names = [f"{split} rain {i}.wav" for i in range(3)]
        for i, name in enumerate(names):
            put(root / split / name, sound(10 * k + i))
        put_csv(
            root / f"clotho_captions_{split}.csv",
            "file_name,caption_1,caption_2,caption_3,caption_4,caption_5",
            ([name, *(f"Rain {k}{i}{j} falls on a roof." for j in range(5))] for i, name in enumerate(names)),
        )
        put_csv(
            root / f"clotho_metadata_{split}.csv",
            "file_name,keywords,sound_id,sound_link,start_end_samples,manufacturer,license",
            (
                [
                    name,
                    f"rain;roof{k}{i}",
                    f"17{k}{i}",
                    f"https://example.org/s/17{k}{i}",
                    '"[0, 1323000]"',
                    f"maker{k}{i}",
                    "by",
                ]
                for i, name in enumerate(names)
            ),
        )


def fsd50k(root: Path) -> None:
    for k, split in enumerate(("dev", "eval")):
        numbers = [64760 + 10 * k + i for i in range(4)]
        for i in numbers:
            put(root / f"FSD50K.{split}_audio" / f"{i}.wav", sound(i % 100))
        parts: list[list[Any]] = [[i, f'"Guitar,Music{i}"', f'"/m/0{i},/m/1{i}"'] for i in numbers]
        rows = [[*row, "val" if row[0] % 4 == 0 else "train"] for row in parts] if split == "dev" else parts
        head = "fname,labels,mids,split" if split == "dev" else "fname,labels,mids"
        put_csv(root / "FSD50K.ground_truth" / f"{split}.csv", head, rows)
        clips = {
            str(i): {
                "title": f"clip{i}.wav",
                "description": f"about {i}",
                "tags": ["guitar"],
                "license": "by",
                "uploader": f"user{i}",
            }
            for i in numbers
        }
        put_json(root / "FSD50K.metadata" / f"{split}_clips_info_FSD50K.json", clips)
    put_lines(
        root / "FSD50K.ground_truth" / "vocabulary.csv", ["0,Guitar,/m/0342h", "1,Music,/m/04rlf", "2,Rain,/m/06mb1"]
    )


def chestxray14(root: Path) -> None:
    names = [f"{i:08d}_{j:03d}.png" for i in range(1, 5) for j in range(2)]
    for i, name in enumerate(names):
        put(root / f"images_{1 + i // 4:03d}" / "images" / name, picture(i, "PNG"))
    head = (
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
        "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
    )
    rows: list[list[object]] = [
        [
            name,
            "Cardiomegaly|Effusion" if i % 2 else "No Finding",
            i % 2,
            i // 2 + 1,
            58 + i,
            "MF"[i % 2],
            "PA",
            2682,
            2749,
            0.143,
            0.143,
            "",
        ]
        for i, name in enumerate(names)
    ]
    put_csv(root / "Data_Entry_2017.csv", head, rows)
    boxes = [[names[i], "Cardiomegaly", 225.08 + i, 547.02, 86.78, 79.19, "", "", ""] for i in (1, 3, 3)]
    put_csv(root / "BBox_List_2017.csv", "Image Index,Finding Label,Bbox [x,y,w,h],,,", boxes)
    put_lines(root / "train_val_list.txt", names[:6])
    put_lines(root / "test_list.txt", names[6:])


def brats(root: Path) -> None:
    cases = [f"BraTS20_Training_{i:03d}" for i in range(1, 5)]
    for i, case in enumerate(cases):
        for j, kind in enumerate(("flair", "t1", "t1ce", "t2", "seg")):
            put(root / case / f"{case}_{kind}.nii.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03%d %d" % (i, j))
    put_csv(
        root / "name_mapping.csv",
        "Grade,BraTS_2017_subject_ID,BraTS_2018_subject_ID,TCGA_TCIA_subject_ID,BraTS_2019_subject_ID,BraTS_2020_subject_ID",
        (
            ["HGG" if i % 2 else "LGG", f"Brats17_CBICA_A{i}", f"Brats18_CBICA_A{i}", "NA", f"BraTS19_CBICA_A{i}", case]
            for i, case in enumerate(cases)
        ),
    )
    put_csv(
        root / "survival_info.csv",
        "Brats20ID,Age,Survival_days,Extent_of_Resection",
        ([case, 60.46 + i, 289 + i, "GTR"] for i, case in enumerate(cases[:3])),
    )


def msrvtt(root: Path) -> None:
    for folder, name, numbers in (("TrainValVideo", "train_val", range(4)), ("TestVideo", "test", range(7010, 7012))):
        for i in numbers:
            put(root / folder / f"video{i}.mp4", video(i))
        splits = {0: "train", 1: "train", 2: "validate", 3: "train"}
        videos = [
            {
                "category": i % 20,
                "url": f"https://example.org/watch?v={i}",
                "video_id": f"video{i}",
                "start time": 1.5 + i,
                "end time": 9.5 + i,
                "split": splits.get(i, "test"),
                "id": i,
            }
            for i in numbers
        ]
        sentences = [
            {"caption": f"a man {i} does {j}", "video_id": f"video{i}", "sen_id": 20 * i + j}
            for i in numbers
            for j in range(3)
        ]
        info = {"contributor": "c", "data_created": "2016", "version": "1.0", "description": "d", "year": "2016"}
        put_json(root / f"{name}_videodatainfo.json", {"info": info, "videos": videos, "sentences": sentences})


def squad(root: Path) -> None:
    for split in ("train", "dev"):
        articles = [
            {
                "title": f"{split}_Article_{i}",
                "paragraphs": [
                    {
                        "context": f"The {split} text {i}{j} names city{i}{j}.",
                        "qas": [
                            {
                                "id": f"{split}{i}{j}",
                                "question": f"Which city has {split} {i}{j}?",
                                "answers": [{"answer_start": 20, "text": f"city{i}{j}"}],
                            }
                        ],
                    }
                    for j in range(2)
                ],
            }
            for i in range(3)
        ]
        put_json(root / f"{split}-v1.1.json", {"data": articles, "version": "1.1"})


def aclimdb(root: Path) -> None:
    for split, kinds in (("train", ("pos", "neg", "unsup")), ("test", ("pos", "neg"))):
        for kind in kinds:
            for i in range(3):
                put(
                    root / split / kind / f"{i}_{9 if kind == 'pos' else 2 if kind == 'neg' else 0}.txt",
                    f"{split} film {kind} {i} was long",
                )
            put_lines(
                root / split / f"urls_{kind}.txt",
                [f"http://www.imdb.com/title/tt{split}{kind}{i}/usercomments" for i in range(3)],
            )
        put_lines(root / split / "labeledBow.feat", [f"9 0:{i} 1:1" for i in range(6)])
    put_lines(root / "train" / "unsupBow.feat", ["0 0:8 1:6"])
    put_lines(root / "imdb.vocab", ["the", "and", "film"])
    put_lines(root / "imdbEr.txt", ["0.049", "0.201", "-0.05"])
    put(root / "README", "Large Movie Review Dataset v1.0")


def isic2019(root: Path) -> None:
    names = [f"ISIC_{i:07d}" for i in range(6)]
    for i, name in enumerate(names):
        put(root / "ISIC_2019_Training_Input" / f"{name}.jpg", picture(i))
    put_csv(
        root / "ISIC_2019_Training_GroundTruth.csv",
        "image,MEL,NV,BCC",
        ([name, float(i % 3 == 0), float(i % 3 == 1), float(i % 3 == 2)] for i, name in enumerate(names)),
    )
    put_csv(
        root / "ISIC_2019_Training_Metadata.csv",
        "image,age_approx,anatom_site_general,lesion_id,sex",
        ([name, 55.0 + i, "anterior torso", f"MSK4_{i}", "female"] for i, name in enumerate(names)),
    )


def cub200(root: Path) -> None:
    birds = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
    paths = [f"{bird}/{bird[4:]}_{i:04d}_{796 + i}.jpg" for bird in birds for i in range(3)]
    for i, path in enumerate(paths):
        put(root / "images" / path, picture(i))
    put_lines(root / "images.txt", [f"{i} {path}" for i, path in enumerate(paths, 1)])
    put_lines(root / "image_class_labels.txt", [f"{i} {int(path[:3])}" for i, path in enumerate(paths, 1)])
    put_lines(root / "train_test_split.txt", [f"{i} {i % 2}" for i in range(1, 7)])
    put_lines(root / "bounding_boxes.txt", [f"{i} {60.0 + i} 27.0 325.0 304.0" for i in range(1, 7)])
    put_lines(root / "classes.txt", [f"{i} {bird}" for i, bird in enumerate(birds, 1)])


SEVERAL_TABLES: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (celeba_csv, clotho, fsd50k, chestxray14, brats, msrvtt, squad, aclimdb, isic2019, cub200)
}
