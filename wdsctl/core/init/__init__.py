"""`wdsctl init`: writes a training script, a blend file and a README for a prepared dataset.

`kinds` maps sample types to scripts, `labels` reads the classes of a dataset, `render` fills the templates of the
folder `templates`, `init` writes the files. The room imports `importers`, `inspect` and lower rooms; the command line
imports it. The templates import torch, but no module of this room does.
"""

from __future__ import annotations
