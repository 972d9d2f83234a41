"""What two datasets, or one at two times, have in common: for `wdsctl diff`."""
