"""The recipe of a loader as values: datasets and their arguments, worker configuration, task encoder and its hooks.

`get_train_dataset` and `TaskEncoder` are here. The room opens no files. `plan`, `pipeline` and `run` import it.
"""

from __future__ import annotations
