"""Importers of media with annotation files beside them: `coco`, `yolo` and `voc` for images, `speech` for transcripts.

The samples of each have one form: a part `json` in which `annotations` or `boxes` have an entry per object, and
`box_format` says what the four numbers of a box are. `wdsctl.core.importers` imports these modules by name.
"""

from __future__ import annotations
