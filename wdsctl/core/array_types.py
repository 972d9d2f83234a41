"""Array types that many modules share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Uint64Array = NDArray[np.uint64]
