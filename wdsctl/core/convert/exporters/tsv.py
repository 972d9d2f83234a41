"""Write TSV: the table of `csv.py` with tabs between the cells."""

from __future__ import annotations

from wdsctl.core.convert.exporters.csv import CsvExporter

EXPORTER = CsvExporter(name="tsv", about="TSV, with media files beside it", delimiter="\t")
