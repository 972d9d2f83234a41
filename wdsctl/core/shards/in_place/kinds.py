"""The table of shard formats that are read in place: what scans a shard, and which importer copies its samples.

Every format gives the same kind of scan: samples whose parts are ranges of bytes in the shard. What works on scans
(index, split, views, the loader) does not know the format.
"""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.dataset.shard_names import ShardFormat

#: Describes the shards of a folder, in MDS and LitData.
INDEX_FILE = "index.json"


@dataclass(frozen=True, slots=True)
class InPlaceFormat:
    """`importer`: the format of `--from` that copies the samples. `scanner`: module and function.

    `needs_index`: whether a scan reads the index.json of the shard's folder.
    """

    name: ShardFormat
    importer: str
    scanner: tuple[str, str]
    needs_index: bool = False

    @property
    def copy_command(self) -> str:
        """The command that copies the samples into tars, for messages that do not know the dataset."""
        if self.importer == "zip":
            return "wdsctl prepare ZIP DEST"
        return f"wdsctl convert --from {self.importer} SOURCE DEST"


IN_PLACE_FORMATS: dict[ShardFormat, InPlaceFormat] = {
    each.name: each
    for each in (
        InPlaceFormat("mds", "mds", ("mds", "scan_mds")),
        InPlaceFormat("litdata", "litdata", ("litdata", "scan_litdata"), needs_index=True),
        InPlaceFormat("zip", "zip", ("zip", "scan_zip")),
    )
}
