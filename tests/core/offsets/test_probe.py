from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.probe import Probe, probes_of
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.tar_header import build_tar_header

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
LONG = "folder/" * 30


def write_tar(path: Path, names: list[str], tar_format: int) -> None:
    with tarfile.open(path, "w", format=tar_format) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 5, 1.5  # a fractional mtime, as webdataset's writer writes it
            tar.addfile(info, io.BytesIO(b"hello"))


NAMES = [
    ["a.txt", "a.json", "b.txt", "b.json"],
    ["./x/a.txt", "./x/b.TXT"],
    [f"{LONG}a.txt"],
    ["./" + 95 * "a" + ".txt"],
    ["café.txt", "naïve.txt"],
    ["caf\udce9.txt"],  # Latin-1
]


@pytest.mark.parametrize(
    ("names", "tar_format"),
    [
        (names, tar_format)
        for names in NAMES
        for tar_format in FORMATS
        if len(names[0]) < 100 or tar_format != tarfile.USTAR_FORMAT
    ],
)
def test_probes_fit_their_own_shard(tmp_path: Path, tar_format: int, names: list[str]) -> None:
    write_tar(tmp_path / "a.tar", names, tar_format)
    prepare(str(tmp_path), None, PrepareRequest(accept_type=True))
    index = Offsets(locate(str(tmp_path)).offsets_path(1))
    data = (tmp_path / "a.tar").read_bytes()

    probes = probes_of(index, 0)

    assert len(probes) == 2
    assert all(probe.fits(data[probe.offset : probe.offset + 512]) for probe in probes)


def test_probe_rejects_other_name_or_missing_header() -> None:
    probe = Probe(0, b"a.txt")

    assert probe.fits(build_tar_header(b"a.txt", 5))
    assert not any(
        map(probe.fits, [build_tar_header(b"b.txt", 5), bytes(512), b"", build_tar_header(b"a.txt", 5)[:100]])
    )
