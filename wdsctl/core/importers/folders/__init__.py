"""Importers of folders whose layout says what the files are.

`folder` reads raw files as `prepare` does. Folders are the classes in `imagefolder` (`class_folders` finds and judges
them), the samples in `scenes` and the parts in `partfolders`; `equal_stems` tells parts from classes. In `partnames`, a
word of the file name says the part.
`wdsctl.core.importers` imports these modules by name.
"""

from __future__ import annotations
