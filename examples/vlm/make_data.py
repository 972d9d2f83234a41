"""Write a small vision-language dataset in the form of LLaVA: `train.json`, and the pictures that it names.

Each picture shows one to four coloured shapes on a plain ground. Everything is drawn from the seed, so the same
arguments give the same files. Most conversations are about one picture, some compare two, some have none.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

COLOURS = {
    "red": (214, 48, 49),
    "green": (39, 174, 96),
    "blue": (41, 98, 255),
    "yellow": (241, 196, 15),
    "purple": (142, 68, 173),
    "orange": (230, 126, 34),
}
GROUNDS = {"white": (250, 250, 250), "grey": (150, 150, 150), "black": (20, 20, 20)}
SHAPES = ("circle", "square", "triangle")
NUMBERS = ("no", "one", "two", "three", "four")
SIZES = ((64, 64), (96, 64), (64, 96))
GREETINGS = (
    ("Hello! What can you do?", "I look at pictures and answer questions about them."),
    ("Which shapes do you know?", "I know circles, squares and triangles."),
    ("Which colours do you know?", f"I know {', '.join(COLOURS)}."),
)

Shape = tuple[str, str]  # colour and form


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="where to write train.json and images/")
    parser.add_argument("--samples", type=int, default=320, help="number of conversations (default 320)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    folder = Path(arguments.folder)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    samples = [make_sample(folder, number, arguments.seed) for number in range(arguments.samples)]
    (folder / "train.json").write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    pictures = len(list((folder / "images").iterdir()))
    print(f"wrote {folder}/train.json with {len(samples)} conversations about {pictures} pictures")
    return 0


def make_sample(folder: Path, number: int, seed: int) -> dict[str, Any]:
    """One item of train.json; draws its pictures. Of ten, eight have one picture, one has two, one has none."""
    rng = random.Random(f"{seed}-{number}")
    name = f"{number:05d}"
    count = {8: 2, 9: 0}.get(number % 10, 1)
    images = [f"images/{name}{letter}.png" for letter in "ab"[:count]]
    scenes = [draw_picture(folder / image, rng) for image in images]
    if not scenes:
        turns = [rng.choice(GREETINGS)]
    elif len(scenes) == 2:
        turns = [("<image>\n<image>\nWhich picture has more shapes?", compare(*scenes))]
    else:
        turns = rng.sample(questions(*scenes[0]), rng.randint(1, 4))
        turns[0] = ("<image>\n" + turns[0][0], turns[0][1])
    sample: dict[str, Any] = {"id": name}
    if images:
        sample["image"] = images[0] if len(images) == 1 else images
    sample["conversations"] = [
        {"from": who, "value": text} for turn in turns for who, text in zip(("human", "gpt"), turn, strict=True)
    ]
    return sample


def draw_picture(path: Path, rng: random.Random) -> tuple[str, list[Shape]]:
    """Draw a picture; returns its ground and its shapes from left to right."""
    width, height = rng.choice(SIZES)
    background = rng.choice(list(GROUNDS))
    shapes = [(rng.choice(list(COLOURS)), rng.choice(SHAPES)) for _ in range(rng.randint(1, 4))]
    picture = Image.new("RGB", (width, height), GROUNDS[background])
    draw = ImageDraw.Draw(picture)
    step = width / len(shapes)
    for i, (colour, form) in enumerate(shapes):
        radius = 0.5 * step * rng.uniform(0.6, 0.9)
        x, y = (i + 0.5) * step, rng.uniform(radius, height - radius)
        box = (x - radius, y - radius, x + radius, y + radius)
        if form == "circle":
            draw.ellipse(box, COLOURS[colour])
        elif form == "square":
            draw.rectangle(box, COLOURS[colour])
        else:
            draw.polygon([(x, box[1]), (box[2], box[3]), (box[0], box[3])], COLOURS[colour])
    picture.save(path)
    return background, shapes


def questions(background: str, shapes: list[Shape]) -> list[tuple[str, str]]:
    """Questions about one picture, with their answers."""
    first = f"a {shapes[0][0]} {shapes[0][1]}"
    listed = ", ".join(f"a {colour} {form}" for colour, form in shapes)
    return [
        ("Describe the picture.", f"On a {background} ground there is, from left to right: {listed}."),
        ("How many shapes are there?", f"There {plural(len(shapes))}."),
        ("What is on the left?", f"On the left is {first}."),
        ("What colour is the ground?", f"The ground is {background}."),
    ]


def compare(one: tuple[str, list[Shape]], other: tuple[str, list[Shape]]) -> str:
    counts = len(one[1]), len(other[1])
    if counts[0] == counts[1]:
        return f"Neither: in both there {plural(counts[0])}."
    which = "first" if counts[0] > counts[1] else "second"
    return f"The {which} picture: there {plural(max(counts))}."


def plural(count: int) -> str:
    return f"is {NUMBERS[count]} shape" if count == 1 else f"are {NUMBERS[count]} shapes"


if __name__ == "__main__":
    raise SystemExit(main())
