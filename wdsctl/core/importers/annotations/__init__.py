"""Importers of media with annotation files beside them: boxes of pictures, questions, transcripts.

`annotated` makes the source of such media, and accounts for every sample and file; `labelled` does so for pictures with
boxes. The other modules know one format each: which file has the annotations of which medium, and what they say.
`coco`, whose files can be larger than memory, makes rows instead. `wdsctl.core.importers` imports the formats by name.
"""

from __future__ import annotations
