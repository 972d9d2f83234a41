"""`wdsctl init`: write a training script, a blend file and a README for a prepared dataset.

`kinds` says which script fits which sample type, `labels` reads the classes of a dataset, `render` fills the templates
of the folder `templates`, `init` writes the files. Imports `inspect` and below; the command line imports it. The
templates import torch; nothing here does.
"""

from __future__ import annotations
