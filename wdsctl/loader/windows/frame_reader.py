"""The samples of a dataset for `wdsctl.Dataset`: frames of sequences with their time windows, or plain samples."""

from __future__ import annotations

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.sample_reader import SampleReader
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.windows.source import FrameSource
from wdsctl.loader.windows.windows import no_sequences_error


class SequenceReader(SampleReader):
    def _new_source(self, config: DatasetConfig, decoder: SampleDecoder | None) -> SplitSource:
        choice = self.choice
        if config.sequences is None:
            if choice.delta_timestamps is not None and config is self._config:
                raise no_sequences_error(self.location.display_path)
            return super()._new_source(config, decoder)
        return FrameSource(
            self.location.root,
            self._offsets,
            self._selection,
            config,
            decoder,
            sequences=config.sequences,
            windows=choice.delta_timestamps,
            tolerance_s=choice.tolerance_s,
            location=self.location,
            split_name=choice.split or "",
        )
