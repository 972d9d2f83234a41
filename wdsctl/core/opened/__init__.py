"""A dataset that is open: its catalog, ledger and `dataset.yaml`, each opened and verified once, at the first use.

`handle` has the handle, `OpenDataset`, which functions take in place of a path; `opening` gets it from a path or a URL,
and alone fetches the published catalog of a URL for readers. `writing` locks the dataset for a command that changes it,
and records the command in the ledger. `staging` changes the catalog, in one step or several. `nesting` refuses datasets
in datasets, `history` reads what was recorded. Every room from `energon` up may import this one.
"""
