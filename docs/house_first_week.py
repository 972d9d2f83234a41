"""Prints first-week coverage: the share of the package's statements that the commands of a user's first week execute.

`make house-coverage` runs it, in about three minutes. Commands and data are frozen, so that the figures of different
days compare: if a command or an option changes, change it here, and add nothing. Statements count if they ran in a
process that ended by itself. Forked workers, which end by `os._exit`, do not count.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import wave
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent

#: By this script, before the third rearrangement of the package.
BEFORE = "2026-11-29: 52.7 %"

COMMANDS = """
prepare raw s1 --split 8,1,1 --shard-samples 20
prepare classes s2
prepare table.csv s3
prepare llava.json s4
prepare coco s5
prepare texts.jsonl
prepare speech s6 --media
index s1
index s1 --hash --rebuild
index s1 --media
index s1 --column len=chars:txt
split s1 7,2,1 --by key --yes
split s1 7,2,1 --group-by json:cls --set g
split s1 8,2 --stratify json:cls --set t
split s1
inspect s1
inspect s1 --stats
inspect s1 --samples 2
inspect blend.yaml
validate s1 --level all
validate s2 --level content
validate blend.yaml
convert s1 c1 --to jsonl
convert s1 c2 --shuffle --shard-samples 10
convert s1 c3 --to parquet
convert s1 c4 --image jpeg:80
repair s1 fixed
diff s1 c2
log s1
sql s1 "select count(*) from v_sample"
view create s1 small --where "part = 'txt' and size < 30"
ls s1
get s1 000 txt
catalog info s1
catalog check s1
checksum s1
export s1 --to wids
init s1 tr
doctor
explain WDS102
config show
--help
prepare --help
"""

#: Of commands that do not end with 0: the datasets differ.
EXIT_CODES = {"diff s1 c2": 1}

SETTINGS = """
[run]
branch = False
parallel = True
patch = subprocess
source_pkgs = wdsctl
"""
SETTINGS_FILE = "coverage.cfg"


def write_data(folder: Path) -> None:
    """Write what the commands read: raw files, classes, a table, conversations, COCO, texts, speech and a blend."""
    images = [f"raw/{i:03}.jpg" for i in range(60)]
    for i, name in enumerate(images):
        write_picture(folder / name, i)
        record = {"cls": i % 20, "caption": f"picture number {i}"}
        (folder / name).with_suffix(".txt").write_text(f"picture number {i}", encoding="utf-8")
        write_json(folder / f"raw/{i:03}.json", record)
    for i in range(20):
        write_picture(folder / "classes" / ("cat", "dog")[i % 2] / f"{i:03}.jpg", i)
    rows = [f"{image},picture number {i}\n" for i, image in enumerate(images)]
    (folder / "table.csv").write_text(f"image,caption\n{''.join(rows)}", encoding="utf-8")
    write_json(folder / "llava.json", [conversation(i, image) for i, image in enumerate(images)])
    write_coco(folder / "coco")
    texts = [json.dumps({"text": f"text number {i} " * (1 + i % 5)}) + "\n" for i in range(60)]
    (folder / "texts.jsonl").write_text("".join(texts), encoding="utf-8")
    write_speech(folder / "speech" / "train-clean-100" / "1" / "2")
    blend = "splits:\n  train:\n    blend:\n      - {path: s1, weight: 3}\n      - {path: s3, weight: 1}\n"
    (folder / "blend.yaml").write_text(blend, encoding="utf-8")


def write_picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 32), (4 * number, 100, 200)).save(path)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def conversation(number: int, image: str) -> dict[str, Any]:
    turns = [{"from": "human", "value": "<image>\nWhat is this?"}, {"from": "gpt", "value": f"Picture {number}."}]
    return {"id": str(number), "image": image, "conversations": turns}


def write_coco(folder: Path) -> None:
    """Write 10 pictures with a caption and a box each."""
    for i in range(10):
        write_picture(folder / "images" / f"{i:03}.jpg", i)
    images = [{"id": i, "file_name": f"{i:03}.jpg", "width": 32, "height": 32} for i in range(10)]
    captions = [{"id": i, "image_id": i, "caption": f"picture number {i}"} for i in range(10)]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 10, 12], "area": 120} for i in range(10)]
    categories = [{"id": 1, "name": "cat"}]
    write_json(folder / "annotations" / "captions.json", {"images": images, "annotations": captions})
    instances = {"images": images, "annotations": boxes, "categories": categories}
    write_json(folder / "annotations" / "instances.json", instances)


def write_speech(folder: Path) -> None:
    """Write 12 recordings of silence and their transcripts, as LibriSpeech has them."""
    folder.mkdir(parents=True)
    for i in range(12):
        with wave.open(str(folder / f"1-2-{i:04}.wav"), "wb") as sound:
            sound.setparams((1, 2, 16_000, 0, "NONE", ""))
            sound.writeframes(bytes(2 * 1_600 * (1 + i % 3)))
    lines = [f"1-2-{i:04} UTTERANCE NUMBER {i}\n" for i in range(12)]
    (folder / "1-2.trans.txt").write_text("".join(lines), encoding="utf-8")


def train() -> None:
    """What a first week does in Python, in the folder of the data: trainings, a validation, single samples, packs."""
    import torch

    import wdsctl
    from wdsctl.loader import (
        DefaultTaskEncoder,
        Sample,
        WorkerConfig,
        edataclass,
        get_savable_loader,
        get_train_dataset,
        get_val_dataset,
        stateless,
    )
    from wdsctl.loader.packing import Packing

    @edataclass
    class LettersSample(Sample):
        letters: torch.Tensor

    class Letters(DefaultTaskEncoder):
        @stateless
        def encode_sample(self, sample: Any) -> Any:
            return LettersSample.derive_from(sample, letters=torch.tensor(list(sample.text.encode())))

    def first_batches(path: str, workers: int = 0, **options: Any) -> None:
        """Take a batch, save, take three, and take the three again from the state."""

        def open_loader() -> Any:
            config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
            return get_savable_loader(get_train_dataset(path, batch_size=2, worker_config=config, **options))

        loader, again = open_loader(), open_loader()
        batches = iter(loader)
        next(batches)
        again.load_state_dict(loader.state_dict())
        expected = [next(batches).__key__ for _ in range(3)]
        found = [batch.__key__ for batch, _ in zip(again, range(3), strict=False)]
        if found != expected:
            raise SystemExit(f"{path}: the resumed loader has the samples {found}, not {expected}")

    first_batches("s1")
    first_batches("s1", workers=2)
    for path in ("blend.yaml", "s4", "s6"):
        first_batches(path)
    validation = get_val_dataset("s1", batch_size=2, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))
    for _ in get_savable_loader(validation):
        pass
    dataset = wdsctl.Dataset("s1")
    for index in range(3):
        _ = dataset[index]
    packing = Packing(length=lambda sample: len(sample.letters), capacity=200, window=16)
    first_batches("texts.jsonl", packing=packing, task_encoder=Letters())


def run(folder: Path, *arguments: str, exit_code: int = 0) -> None:
    """Run `coverage` in `folder`. Raises SystemExit with its output if it ends with another code than `exit_code`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WDSCTL_")}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}
    command = [sys.executable, "-m", "coverage", arguments[0], f"--rcfile={folder / SETTINGS_FILE}", *arguments[1:]]
    ended = subprocess.run(  # noqa: S603 - the commands of this file
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ended.returncode != exit_code:
        raise SystemExit(
            f"{shlex.join(arguments)}: expected exit code {exit_code}, found {ended.returncode}\n"
            f"{ended.stdout}{ended.stderr}"
        )


def executed_statements(folder: Path) -> dict[str, tuple[int, int]]:
    """Run the first week in an empty folder. Returns (statements, executed ones) of every file of the package."""
    write_data(folder)
    (folder / SETTINGS_FILE).write_text(SETTINGS, encoding="utf-8")
    for line in COMMANDS.strip().splitlines():
        sys.stderr.write(f"wdsctl {line}\n")
        run(folder, "run", "-m", "wdsctl", *shlex.split(line), exit_code=EXIT_CODES.get(line, 0))
    sys.stderr.write("trainings\n")
    run(folder, "run", str(Path(__file__).resolve()), "--train")
    run(folder, "combine")
    run(folder, "json", "-o", "report.json")
    files = json.loads((folder / "report.json").read_text(encoding="utf-8"))["files"]
    return {
        os.path.relpath(folder / name, ROOT): (each["summary"]["num_statements"], each["summary"]["covered_lines"])
        for name, each in files.items()
    }


def main() -> int:
    if sys.argv[1:] == ["--train"]:
        train()
        return 0
    with tempfile.TemporaryDirectory(prefix="wdsctl-house-") as folder:
        of_files = executed_statements(Path(folder))
    of_rooms, executed_of_rooms = Counter[str](), Counter[str]()
    for name, (statements, executed) in of_files.items():
        room = "/".join(name.split("/")[:-1][:3])
        of_rooms[room] += statements
        executed_of_rooms[room] += executed
    missing = of_rooms - executed_of_rooms
    sys.stdout.write(f"{'statements':>10}  {'not executed':>12}  room\n")
    for room, count in missing.most_common():
        sys.stdout.write(f"{of_rooms[room]:10,}  {count:12,}  {room}\n")
    statements, executed = of_rooms.total(), executed_of_rooms.total()
    share = 100 * executed / statements
    sys.stdout.write(f"\nfirst-week coverage: {executed:,} of {statements:,} statements, {share:.1f} % ({BEFORE})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
