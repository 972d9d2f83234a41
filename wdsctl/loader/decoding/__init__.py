"""Decoding parts: images to tensors or arrays, text, JSON, numpy and torch files; video and audio in `av`.

The formats are those of `core/media/kinds.py`. `decoder` chooses the function by the part's name, `images` decodes
images through `jpeg` and `pillow`, `parts` the other formats, `memory` puts the images of a batch into one tensor.
Imports `samples` and `runtime`; `reading` imports it.
"""

from __future__ import annotations
