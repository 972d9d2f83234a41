"""What every stage of the pipeline uses: the contract of cursors (`stage`), failures and their rates, counts (`stats`),
randomness, logs, and names in plans (`identity`).

The lowest room of `wdsctl.loader`: every other may import it.
"""

from __future__ import annotations
