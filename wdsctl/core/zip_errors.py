"""What `zipfile` raises for a zip that is damaged, encrypted, or packed by a method that Python has not."""

from __future__ import annotations

import struct
import zipfile
import zlib
from lzma import LZMAError

#: Without OSError, which is an error of the disk if it has a number, and otherwise one of bzip2.
ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, LZMAError, struct.error),
    *(EOFError, NotImplementedError, RuntimeError, ValueError),
)

#: The same for a zip in memory.
HELD_ZIP_ERRORS = (*ZIP_ERRORS, OSError)
