"""Cut seeded crops of the photographs in examples/photos into a raw folder, as people have them."""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from PIL import Image, ImageOps

if TYPE_CHECKING:
    from collections.abc import Callable

PHOTOS = Path(__file__).resolve().parent / "photos"
Box = tuple[int, int, int, int]  # x, y, width, height in the photograph


@dataclass(frozen=True, slots=True, kw_only=True)
class Photo:
    file: str
    kind: str  # the class, and the folder its crops go to
    caption: str
    image: Image.Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    photo: Photo
    box: Box
    is_mirrored: bool


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        self.exit(2, f"error: {message}\n")


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    dest = Path(arguments.dest)
    try:
        if not arguments.force and dest.is_dir() and any(dest.iterdir()):
            print(f"error: {dest} is not empty (use --force to write into it all the same)", file=sys.stderr)
            return 2
        photos = load_photos(PHOTOS)
        folders = write_samples(dest, photos, samples=arguments.samples, seed=arguments.seed, size=arguments.size)
    except OSError as error:
        print(f"error: {error.filename or dest}: {error.strerror or error}", file=sys.stderr)
        return 4 if isinstance(error, PermissionError) else 3
    print(f"wrote {arguments.samples:,} samples from {len(photos)} photographs into {folders} folders of {dest}")
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("dest", metavar="DEST", help="the folder to write")
    parser.add_argument("--samples", type=at_least(1), default=400, help="how many crops (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other crops (default 0)")
    parser.add_argument("--size", type=at_least(8), default=96, help="width and height of a crop (default 96)")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    return parser.parse_args(argv)


def at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return whole


def load_photos(folder: Path) -> list[Photo]:
    """All photographs that captions.json names, decoded, in the order of their file names."""
    captions = json.loads((folder / "captions.json").read_text(encoding="utf-8"))
    return [
        Photo(file=file, kind=about["class"], caption=about["caption"], image=Image.open(folder / file).convert("RGB"))
        for file, about in sorted(captions.items())
    ]


def write_samples(dest: Path, photos: list[Photo], *, samples: int, seed: int, size: int) -> int:
    """Write every sample; returns the number of folders. Sample i does not depend on how many there are."""
    kinds = sorted({photo.kind for photo in photos})
    used = set()
    for number in range(samples):
        cut = choose(photos, random.Random(f"{seed}/{number}"))
        used.add(cut.photo.kind)
        write_sample(dest / cut.photo.kind / f"{number:04d}", cut, label=kinds.index(cut.photo.kind), size=size)
    return len(used)


def choose(photos: list[Photo], rng: random.Random) -> Cut:
    """A square of 40 to 100 % of the shorter side, anywhere in one of the photographs."""
    photo = photos[below(len(photos), rng)]
    width, height = photo.image.size
    side = round(min(width, height) * (0.4 + 0.6 * rng.random()))
    box = (below(width - side + 1, rng), below(height - side + 1, rng), side, side)
    return Cut(photo=photo, box=box, is_mirrored=rng.random() < 0.5)


def below(n: int, rng: random.Random) -> int:
    """Python promises the same random() in every version, and not the same randrange()."""
    return int(rng.random() * n)


def write_sample(stem: Path, cut: Cut, *, label: int, size: int) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    crop(cut, size).save(f"{stem}.jpg", quality=90)
    column, row, side, _ = cut.box
    place = {"column": column, "row": row, "side": side}  # in the photograph
    facts = {"label": label, "class": cut.photo.kind, "source": cut.photo.file, "cut": place}
    write_text(f"{stem}.json", json.dumps(facts) + "\n")
    write_text(f"{stem}.txt", caption_of(cut))


def crop(cut: Cut, size: int) -> Image.Image:
    x, y, width, height = cut.box
    square = cut.photo.image.resize((size, size), Image.Resampling.LANCZOS, box=(x, y, x + width, y + height))
    return ImageOps.mirror(square) if cut.is_mirrored else square


def caption_of(cut: Cut) -> str:
    mirrored = ", mirrored" if cut.is_mirrored else ""
    return f"{cut.photo.caption}, {place_of(cut.box, cut.photo.image.size)}{mirrored}"


def place_of(box: Box, size: tuple[int, int]) -> str:
    """Where the middle of the box lies in the photograph: `upper left part`, `lower part`, `middle part`, ..."""
    x, y, width, height = box
    across = third((x + width / 2) / size[0], ("left", "", "right"))
    down = third((y + height / 2) / size[1], ("upper", "", "lower"))
    return f"{' '.join(filter(None, (down, across))) or 'middle'} part"


def third(share: float, names: tuple[str, str, str]) -> str:
    return names[0] if share < 0.4 else names[1] if share <= 0.6 else names[2]


def write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
