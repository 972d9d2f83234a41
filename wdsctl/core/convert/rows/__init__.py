"""What importers share: rows of a table, records of a list, and how they become samples."""
