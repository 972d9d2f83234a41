"""Make photographs, sounds and clips in a raw folder, and questions about them in a JSONL file. Nothing is random."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import av
import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Wave = NDArray[np.float32]  # (samples,), between -1 and 1

HERE = Path(__file__).resolve().parent
PHOTOS = HERE.parent / "photos"

SOUND_RATE = 16_000  # samples a second
CLIP_SECONDS, CLIP_RATE, CLIP_SIZE = 3, 12, (160, 120)
#: Where the camera goes over a photograph: from and to, as shares of the room that there is, across and down.
WAYS = {
    "to the right": ((0.0, 0.5), (1.0, 0.5)),
    "to the left": ((1.0, 0.5), (0.0, 0.5)),
    "down": ((0.5, 0.0), (0.5, 1.0)),
    "up": ((0.5, 1.0), (0.5, 0.0)),
}
PITCHES = {"low": 150, "middle": 440, "high": 1320}  # beats a second
NUMBERS = ("one", "two", "three", "four", "five", "six")
FORMANTS = ((700, 1.0), (1200, 0.5), (2600, 0.25))  # of an open vowel: beats a second, and how loud


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        self.exit(2, f"error: {message}\n")


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("dest", metavar="DEST", help="gets raw/, questions.jsonl and train.yaml")
    parser.add_argument("--clips", type=int, default=16, help="how many clips (default 16)")
    arguments = parser.parse_args(argv)
    dest = Path(arguments.dest)
    if (dest / "raw").exists() or (dest / "questions.jsonl").exists():
        print(f"error: {dest} has a raw/ or a questions.jsonl already", file=sys.stderr)
        return 2
    try:
        lines = make(dest, arguments.clips)
    except OSError as error:
        print(f"error: {error.filename or dest}: {error.strerror or error}", file=sys.stderr)
        return 4 if isinstance(error, PermissionError) else 3
    files = {path.suffix[1:]: 0 for path in sorted((dest / "raw").rglob("*.*"))}
    for path in (dest / "raw").rglob("*.*"):
        files[path.suffix[1:]] += 1
    print("wrote " + ", ".join(f"{count} {kind}" for kind, count in files.items()) + " into raw/")
    print(f"wrote {len(lines)} questions about them into questions.jsonl, and train.yaml")
    return 0


def make(dest: Path, clips: int) -> list[dict[str, str]]:
    """Write all files; returns the lines of questions.jsonl."""
    for kind in ("photos", "sounds", "clips"):
        (dest / "raw" / kind).mkdir(parents=True)
    lines = [*make_photographs(dest / "raw"), *make_sounds(dest / "raw"), *make_videos(dest / "raw", clips)]
    text = "".join(json.dumps({"id": f"q{i:04d}", **line}) + "\n" for i, line in enumerate(lines))
    (dest / "questions.jsonl").write_text(text, encoding="utf-8", newline="\n")
    shutil.copyfile(HERE / "train.yaml", dest / "train.yaml")
    return lines


def ask_about(media: str, **answers: str) -> Iterator[dict[str, str]]:
    """A line for each question about a file; `answers`: by the question, with _ for spaces."""
    for question, answer in answers.items():
        yield {"media": media, "question": question.replace("_", " ") + "?", "answer": answer}


def make_photographs(raw: Path) -> Iterator[dict[str, str]]:
    for file, about in captions():
        name = f"photos/{file}"
        shutil.copyfile(PHOTOS / file, raw / name)
        yield from ask_about(name, What_is_seen=about["caption"], What_kind_of_picture_is_it=about["class"])


def captions() -> list[tuple[str, dict[str, str]]]:
    return sorted(json.loads((PHOTOS / "captions.json").read_text(encoding="utf-8")).items())


# Sounds: beeps of a pitch, and a made-up voice that says so many syllables.


def make_sounds(raw: Path) -> Iterator[dict[str, str]]:
    for pitch, beats in PITCHES.items():
        for count in range(1, len(NUMBERS) + 1):
            name = f"sounds/{pitch}-{count}.wav"
            write_sound(raw / name, "wav", "pcm_s16le", repeated(tone(beats, 0.2), count))
            yield from ask_about(name, How_many_beeps_are_there=NUMBERS[count - 1], How_high_are_they=pitch)
    for count in range(1, len(NUMBERS) + 1):
        name = f"sounds/voice-{count}.flac"
        write_sound(raw / name, "flac", "flac", repeated(syllable(110 + 10 * count), count))
        yield from ask_about(name, How_many_syllables_are_said=NUMBERS[count - 1], Who_is_heard="a voice")


def tone(beats: float, seconds: float) -> Wave:
    time = np.arange(int(SOUND_RATE * seconds)) / SOUND_RATE
    return (0.5 * np.sin(2 * np.pi * beats * time) * faded(len(time))).astype(np.float32)


def syllable(beats: float) -> Wave:
    """A quarter of a second of overtones, each as loud as it lies near to one of the formants of a vowel."""
    time = np.arange(SOUND_RATE // 4) / SOUND_RATE
    wave = np.zeros(len(time))
    for overtone in np.arange(beats, 4000, beats):
        loud = sum(weight / (1 + ((overtone - at) / 150) ** 2) for at, weight in FORMANTS)
        wave += loud * np.sin(2 * np.pi * overtone * time)
    spoken: Wave = (0.5 * wave / np.abs(wave).max() * faded(len(time))).astype(np.float32)
    return spoken


def faded(samples: int) -> NDArray[np.float64]:
    """Up and down at the ends, so that nothing clicks."""
    return np.minimum(1, np.minimum(np.arange(samples), np.arange(samples)[::-1]) / 400)


def repeated(wave: Wave, count: int) -> Wave:
    """So many times with pauses, in two seconds."""
    whole = np.zeros(2 * SOUND_RATE, np.float32)
    for i in range(count):
        begin = i * len(whole) // len(NUMBERS)
        whole[begin : begin + len(wave)] = wave
    return whole


def write_sound(path: Path, container: str, codec: str, wave: Wave) -> None:
    with av.open(str(path), "w", format=container) as out:
        put_sound(out, add_sound(out, codec), wave)


def add_sound(out: Any, codec: str) -> Any:
    stream = out.add_stream(codec, rate=SOUND_RATE)
    stream.layout = "mono"
    return stream


def put_sound(out: Any, stream: Any, wave: Wave) -> None:
    samples: Any = wave[None]
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
    frame.sample_rate, frame.pts = SOUND_RATE, 0
    size = stream.frame_size or None
    resampler = av.AudioResampler(stream.format.name, "mono", SOUND_RATE, frame_size=size)
    for piece in (*resampler.resample(frame), *resampler.resample(None)):
        out.mux(stream.encode(piece))
    out.mux(stream.encode(None))


# Clips: a camera that goes over a photograph, and a tone that rises or falls meanwhile.


def make_videos(raw: Path, count: int) -> Iterator[dict[str, str]]:
    photos = captions()
    for i in range(count):
        file, about = photos[i % len(photos)]
        way = list(WAYS)[i % len(WAYS)]
        rises = i // len(WAYS) % 2 == 0
        name = f"clips/{i:03d}.mp4"
        with Image.open(PHOTOS / file) as photo:
            write_clip(raw / name, photo.convert("RGB"), way, rises=rises)
        yield from ask_about(
            name,
            Where_does_the_camera_go=way,
            What_is_seen=about["caption"],
            Does_the_tone_rise_or_fall="it rises" if rises else "it falls",
        )


def write_clip(path: Path, photo: Image.Image, way: str, *, rises: bool) -> None:
    with av.open(str(path), "w", format="mp4") as out:
        pictures = out.add_stream("libx264", rate=CLIP_RATE, options={"g": "12"})
        pictures.width, pictures.height = CLIP_SIZE
        pictures.pix_fmt = "yuv420p"
        pictures.codec_context.thread_count = 1  # the same bytes on any number of processors
        sound = add_sound(out, "aac")
        for number, image in enumerate(views(photo, way)):
            frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, CLIP_RATE)
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
        put_sound(out, sound, glide(rises=rises))


def views(photo: Image.Image, way: str) -> Iterator[Image.Image]:
    """What the camera sees: 60 % of the photograph's sides."""
    side = [0.6 * each for each in photo.size]
    (x, y), (to_x, to_y) = WAYS[way]
    for share in np.linspace(0, 1, CLIP_SECONDS * CLIP_RATE).tolist():
        left = (photo.width - side[0]) * (x + (to_x - x) * share)
        top = (photo.height - side[1]) * (y + (to_y - y) * share)
        box = (left, top, left + side[0], top + side[1])
        yield photo.resize(CLIP_SIZE, Image.Resampling.BILINEAR, box=box)


def glide(*, rises: bool) -> Wave:
    beats = np.linspace(300, 900, CLIP_SECONDS * SOUND_RATE)
    turns = np.cumsum(beats if rises else beats[::-1]) / SOUND_RATE
    return (0.3 * np.sin(2 * np.pi * turns)).astype(np.float32)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
