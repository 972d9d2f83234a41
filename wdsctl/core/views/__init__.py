"""Named selections of samples (views), and SQL over the catalog.

`views` creates, refreshes and deletes views, `select` evaluates a definition, `sql` runs a user's query behind
`sql_guard`, which allows reading and nothing else. The command line imports it.
"""

from __future__ import annotations
