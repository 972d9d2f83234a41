"""Planted faults that occur in real data, and the level of `validate` that finds each of them.

`python -m tests.core.planted` writes the table into docs/validate.md; a test compares the two.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tests.build import a_dataset, a_shard
from tests.loader.decoding.av.media import make_audio, make_video
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import located_findings_from_json, read_checks
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.media.kinds import part_kind
from wdsctl.core.tar_header import CHECKSUM_FIELD, TAR_BLOCK_BYTES, padded_size
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.validate import ValidateRequest, validate

LEVELS: tuple[ValidationLevel, ...] = ("structure", "headers", "content", "schema")
MEDIA = ("jpg", "png", "webp", "flac", "wav", "mp3", "ogg", "mp4", "mkv")

PAGE = Path(__file__).parents[2] / "docs" / "validate.md"
BEGIN, END = "<!-- planted: begin -->", "<!-- planted: end -->"

Members = Sequence[tuple[str, bytes]]
Shards = dict[str, bytes]

NO_MORE: Members = ()
NUMBER: Members = (("cls", b"7"),)

_BAD = "001"  # the key of the sample that a fault is planted into


class Fault(NamedTuple):
    """`yaml` describes the samples, as in the sound dataset; `shards` makes the shards with the fault."""

    kind: str
    what: str
    yaml: str
    shards: Callable[[], Shards]


class Outcome(NamedTuple):
    """`found`: the levels with an error or a warning."""

    fault: Fault
    found: frozenset[str]


@cache
def medium(part: str) -> bytes:
    """A media file of a few thousand bytes of noise, so that every bit of it matters."""
    match part:
        case "jpg" | "png" | "webp" | "gif":
            noise = np.random.default_rng(7).integers(0, 255, (48, 64, 3), dtype=np.uint8)
            file = io.BytesIO()
            Image.fromarray(noise).save(file, {"jpg": "JPEG"}.get(part, part.upper()))
            return file.getvalue()
        case "mp4" | "mkv":
            return make_video({"mkv": "matroska"}.get(part, part), "libx264", times=range(12))
        case "npy":
            file = io.BytesIO()
            np.save(file, np.arange(256.0))
            return file.getvalue()
        case "npz":
            file = io.BytesIO()
            np.savez(file, values=np.arange(256.0))
            return file.getvalue()
    codecs = {"flac": "flac", "wav": "pcm_s16le", "mp3": "libmp3lame", "ogg": "vorbis"}
    return make_audio(part, codecs[part], seconds=0.5)


def members(part: str = "jpg", count: int = 4, more: Members = NO_MORE) -> Members:
    """The members of a sound dataset: each sample has a media part, JSON, text, and the parts in `more`."""
    parts = {part: medium(part), **dict(more)}
    return [
        (f"{i:03d}.{name}", data)
        for i in range(count)
        for name, data in (*parts.items(), ("json", b'{"label": %d, "name": "cat"}' % i), ("txt", b"a cat"))
    ]


def yaml_of(part: str = "jpg", label: str = "json[label]") -> str:
    kinds = {
        "image": f"ImageClassificationSample\nfield_map: {{image: {part}, label: '{label}', label_name: txt}}",
        "audio": f"AudioSample\nfield_map: {{audio: {part}, text: txt}}",
        "video": f"VidQASample\nfield_map: {{video: {part}, context: txt, answers: 'json[name]'}}",
    }
    return f"sample_type: {kinds.get(part_kind(part), 'CrudeSample')}\n"


def pack_shards(all_members: Members, edit: Callable[[bytearray], bytes | bytearray] = bytearray) -> Shards:
    """Packs each half of the members into a shard; `edit` changes the bytes of the first shard."""
    half = len(all_members) // 2
    return {"a.tar": bytes(edit(bytearray(a_shard(all_members[:half])))), "b.tar": a_shard(all_members[half:])}


def with_part(part: str, change: Callable[[bytes], bytes], medium_part: str = "jpg", more: Members = NO_MORE) -> Shards:
    """The sound dataset with one part of one sample changed."""
    name = f"{_BAD}.{part}"
    changed = [(each, change(data) if each == name else data) for each, data in members(medium_part, more=more)]
    return pack_shards(changed)


def with_members(change: Callable[[Members], Members], count: int = 4, more: Members = NO_MORE) -> Shards:
    """The sound dataset with other members in the first shard."""
    whole = members(count=count, more=more)
    half = len(whole) // 2
    return {"a.tar": a_shard(change(whole[:half])), "b.tar": a_shard(whole[half:])}


def flip_bit(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2] ^= 8
    return bytes(changed)


def truncate(data: bytes) -> bytes:
    return data[: 2 * len(data) // 3]


def zero_middle(data: bytes) -> bytes:
    """Sets a quarter of the data, in the middle, to zero."""
    at, size = 3 * len(data) // 8, len(data) // 4
    return data[:at] + bytes(size) + data[at + size :]


def replace_with(data: bytes) -> Callable[[bytes], bytes]:
    return lambda _: data


def media_faults() -> Iterator[Fault]:
    for part in MEDIA:
        yield Fault("a flipped bit in a medium", part, yaml_of(part), partial(with_part, part, flip_bit, part))
    for part in MEDIA:
        yield Fault("a truncated medium", part, yaml_of(part), partial(with_part, part, truncate, part))
    for part in ("jpg", "png", "flac", "mp4", "mkv"):
        yield Fault("zeros in a medium", part, yaml_of(part), partial(with_part, part, zero_middle, part))
    kind = "a medium with a wrong extension"
    pairs = (("png", "jpg"), ("gif", "png"), ("wav", "mp3"), ("mp3", "ogg"), ("flac", "wav"), ("mkv", "mp4"))
    for real, part in pairs:
        yield Fault(
            kind, f"{real} as {part}", yaml_of(part), partial(with_part, part, replace_with(medium(real)), part)
        )
    page = b"<!DOCTYPE html><html><title>404 Not Found</title></html>"
    yield Fault(kind, "a web page as jpg", yaml_of(), partial(with_part, "jpg", replace_with(page)))


def text_faults() -> Iterator[Fault]:
    for what, data in (
        ("NaN", b'{"label": NaN, "name": "cat"}'),
        ("a name twice", b'{"label": 1, "label": 2, "name": "cat"}'),
        ("not UTF-8", b'{"label": 1, "name": "\xe9"}'),
        ("cut off", b'{"label": 1, "na'),
        ("a comma too many", b'{"label": 1, "name": "cat",}'),
        ("two objects", b'{"label": 1}{"label": 2}'),
    ):
        yield Fault("JSON", what, yaml_of(), partial(with_part, "json", replace_with(data)))
    kind = "text and numbers"
    yield Fault(kind, "Latin-1", yaml_of(), partial(with_part, "txt", replace_with("é".encode("latin-1"))))
    yield Fault(kind, "UTF-16", yaml_of(), partial(with_part, "txt", replace_with("a cat".encode("utf-16"))))
    word = partial(with_part, "cls", replace_with(b"seven"), more=NUMBER)
    yield Fault(kind, "a word for a number", yaml_of(label="cls"), word)
    kind = "arrays"
    for what, part, change in (
        ("npy with a wrong header", "npy", lambda data: data.replace(b"'<f8'", b"'<x8'")),
        ("npy cut off", "npy", truncate),
        ("npz with a wrong checksum", "npz", _change_zipped_byte),
    ):
        yield Fault(kind, what, yaml_of(part), partial(with_part, part, change, part))


def _change_zipped_byte(data: bytes) -> bytes:
    """Changes a byte of the array, but not its checksum."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.infolist()[0]
    changed = bytearray(data)
    changed[info.header_offset + 200 + len(info.filename)] ^= 1
    return bytes(changed)


def sample_faults() -> Iterator[Fault]:
    kind = "keys"

    def rename_key(key: str, other: str, all_members: Members) -> Members:
        return [(name.replace(f"{key}.", f"{other}."), data) for name, data in all_members]

    def add_samples(*keys: str) -> Callable[[Members], Members]:
        """Appends samples with these keys to the members."""
        return lambda some: [*some, *((name.replace("000", key, 1), data) for key in keys for name, data in some[:3])]

    yield Fault(kind, "twice in a shard", yaml_of(), partial(with_members, add_samples("000")))
    yield Fault(kind, "interleaved", yaml_of(), partial(with_members, lambda some: [*some[0::2], *some[1::2]]))
    yield Fault(kind, "in two shards", yaml_of(), partial(with_members, partial(rename_key, "001", "002")))
    yield Fault(kind, "apart in case alone", yaml_of(), partial(with_members, add_samples("Cat", "cat")))
    yield Fault(
        kind, "apart in Unicode's form alone", yaml_of(), partial(with_members, add_samples("caf\u00e9", "cafe\u0301"))
    )
    kind = "missing parts"

    def drop_member(name: str) -> Callable[[Members], Members]:
        return lambda some: [each for each in some if each[0] != name]

    yield Fault(kind, "one that a field needs", yaml_of(), partial(with_members, drop_member("001.jpg")))
    odd = partial(with_members, drop_member("001.cls"), 24, NUMBER)
    yield Fault(kind, "one that 95 % have", yaml_of(), odd)
    yield Fault(kind, "a field in JSON", yaml_of(), partial(with_part, "json", replace_with(b'{"name": "cat"}')))
    yield Fault(kind, "null in JSON", yaml_of(), partial(with_part, "json", replace_with(b'{"label": null}')))
    for part in ("jpg", "json", "txt"):
        yield Fault("empty parts", part, yaml_of(), partial(with_part, part, replace_with(b"")))
    kind = "exchanged contents"

    def swap_contents(one: str, other: str, some: Members) -> Members:
        data = dict(some)
        return [(name, data[{one: other, other: one}.get(name, name)]) for name, _ in some]

    def other_picture(some: Members) -> Members:
        picture = io.BytesIO()
        Image.new("RGB", (32, 32), (9, 9, 9)).save(picture, "JPEG")
        return swap_contents("000.jpg", "001.jpg", [(n, picture.getvalue() if n == "000.jpg" else d) for n, d in some])

    yield Fault(kind, "two pictures", yaml_of(), partial(with_members, other_picture))
    two = partial(swap_contents, "000.json", "001.json")
    yield Fault(kind, "two JSON parts", yaml_of(), partial(with_members, two))
    mixed = partial(swap_contents, "001.jpg", "001.txt")
    yield Fault(kind, "a picture and its text", yaml_of(), partial(with_members, mixed))


def tar_faults() -> Iterator[Fault]:
    header, size = _header_offset(f"{_BAD}.jpg"), len(medium("jpg"))

    def edit_first_shard(edit: Callable[[bytearray], bytes | bytearray]) -> Callable[[], Shards]:
        return lambda: pack_shards(members(), edit)

    def overwrite(data: bytes, at: int) -> Callable[[], Shards]:
        return edit_first_shard(lambda shard: shard[:at] + data + shard[at + len(data) :])

    kind = "tar headers"
    yield Fault(kind, "a wrong checksum", yaml_of(), overwrite(b"000001", header + CHECKSUM_FIELD[0]))
    yield Fault(kind, "zeros", yaml_of(), overwrite(bytes(TAR_BLOCK_BYTES), header))
    yield Fault(kind, "noise", yaml_of(), overwrite(random.Random(7).randbytes(TAR_BLOCK_BYTES), header))
    yield Fault(kind, "a wrong size", yaml_of(), edit_first_shard(partial(_shrink_size_field, header)))
    kind = "ends of tars"
    yield Fault(
        kind, "cut in a part", yaml_of(), edit_first_shard(lambda shard: shard[: header + TAR_BLOCK_BYTES + size // 2])
    )
    yield Fault(kind, "cut in a header", yaml_of(), edit_first_shard(lambda shard: shard[: header + 100]))
    yield Fault(kind, "no end mark", yaml_of(), edit_first_shard(lambda shard: shard[:header]))
    yield Fault(
        kind,
        "another tar behind the end",
        yaml_of(),
        edit_first_shard(lambda shard: shard + a_shard([("x.jpg", b"1")])),
    )
    for kind, what, name in (
        ("names of members", "../ in front", "../x.jpg"),
        ("names of members", "an absolute path", "/etc/x.jpg"),
        ("names of members", "a name of 300 bytes", f"{'x' * 296}.jpg"),
        ("foreign files", "`.DS_Store` of macOS", ".DS_Store"),
        ("foreign files", "`._NAME` of macOS", f"._{_BAD}.jpg"),
        ("foreign files", "of Windows", "Thumbs.db"),
        ("foreign files", "a README", "README"),
    ):
        more: list[tuple[str, bytes]] = [(name, medium("jpg") if name.endswith(".jpg") else b"x")]
        if kind == "names of members":
            stem = name.removesuffix(".jpg")
            more += [(f"{stem}.json", b'{"label": 1, "name": "cat"}'), (f"{stem}.txt", b"a cat")]
        yield Fault(kind, what, yaml_of(), partial(_pack_with_more, more))


def _pack_with_more(more: Members) -> Shards:
    whole = members()
    half = len(whole) // 2
    return {"a.tar": a_shard([*whole[:half], *more], format=1), "b.tar": a_shard(whole[half:])}


def _header_offset(name: str) -> int:
    """The offset of the header of a member of the first shard."""
    at = 0
    for each, data in members():
        if each == name:
            return at
        at += TAR_BLOCK_BYTES + padded_size(len(data))
    raise ValueError(name)


def _shrink_size_field(header: int, shard: bytearray) -> bytearray:
    """Sets the size field of a member one block too small, with a correct header checksum."""
    size = int(shard[header + 124 : header + 135], 8)
    shard[header + 124 : header + 135] = b"%011o" % (size - TAR_BLOCK_BYTES)
    first, last = (header + at for at in CHECKSUM_FIELD)
    total = sum(shard[header:first]) + sum(shard[last : header + TAR_BLOCK_BYTES]) + 8 * ord(" ")
    shard[first:last] = b"%06o\0 " % total
    return shard


def planted_faults() -> list[Fault]:
    return [*media_faults(), *text_faults(), *sample_faults(), *tar_faults()]


def sound_datasets() -> list[Fault]:
    """The sound datasets that the faults are planted into."""
    parts = (*MEDIA, "npy", "npz")
    return [Fault("sound", part, yaml_of(part), partial(_make_sound, part)) for part in parts]


def _make_sound(part: str) -> Shards:
    return pack_shards(members(part))


def validate_fault(fault: Fault, folder: Path) -> Outcome:
    root = a_dataset(folder, fault.shards())
    index(root)
    Path(locate(root).config_path).write_text(fault.yaml, encoding="utf-8")
    report = validate(root, ValidateRequest(levels=LEVELS))
    levels: set[str] = set()
    of_shards = set()
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        for (_, level, _), check in read_checks(ledger).items():
            findings = [each.finding for each in located_findings_from_json(check.findings)]
            of_shards |= {(each.code, each.shard) for each in findings}
            levels |= {level} if any(each.severity != "note" for each in findings) else set()
    # Findings about all shards together belong to the level structure.
    others = [each for each in report.findings if (each.code, each.shard) not in of_shards and each.severity != "note"]
    return Outcome(fault, frozenset(levels | ({"structure"} if others else set())))


def run(faults: Sequence[Fault], folder: Path) -> list[Outcome]:
    return [validate_fault(fault, folder / str(i)) for i, fault in enumerate(faults)]


def table(outcomes: Sequence[Outcome]) -> str:
    """The table of docs/validate.md."""
    head = ("fault", "planted", *(f"`{level}`" for level in LEVELS), "found", "not found")
    rows = [head, tuple("---" for _ in head)]
    for kind in (*dict.fromkeys(each.fault.kind for each in outcomes), "all"):
        of_kind = [each for each in outcomes if kind in (each.fault.kind, "all")]
        levels = [sum(level in each.found for each in of_kind) for level in LEVELS]
        missed = [each.fault.what for each in of_kind if not each.found]
        missed_text = ", ".join(missed) if kind != "all" else str(len(missed))
        rows.append(
            (kind, *(str(number) for number in (len(of_kind), *levels, len(of_kind) - len(missed))), missed_text or "-")
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(planted_faults(), Path(folder))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(outcomes)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    by_fault = {f"{each.fault.kind}: {each.fault.what}": sorted(each.found) for each in outcomes}
    sys.stdout.write(json.dumps(by_fault, indent=1, ensure_ascii=False) + "\n" + table(outcomes) + "\n")


if __name__ == "__main__":
    main()
