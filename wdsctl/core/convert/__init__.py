"""From one form of a dataset to another: sources of samples, targets, and the plan between them."""
