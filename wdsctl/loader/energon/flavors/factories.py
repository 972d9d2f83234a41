"""Energon's factories of datasets as base classes of the user's own: a sample type, and how its parts are decoded.

A class that derives from one of them registers itself when it is defined, so that the dataset.yaml that names it
(`__module__`, `__class__`) finds it once the program has imported its module. Its samples are those of
`__sample_type__`. If it sets another `_decoder` or overrides `load_sample`, it builds them itself, from the undecoded
parts of the field map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from wdsctl.core.energon.names import FACTORIES, OUR_PACKAGE
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.fields import FieldMissing, extract_field
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.energon.epathlib import EPath
from wdsctl.loader.energon.flavors.prepare_dataset import prepare_dataset, prepare_jsonl
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample
from wdsctl.loader.samples.energon_types import CaptioningSample, InterleavedSample
from wdsctl.loader.samples.registry import SampleFactory, register_factory
from wdsctl.loader.samples.types import (
    ImageClassificationSample,
    ImageSample,
    MultiChoiceVQASample,
    OCRSample,
    SimilarityInterleavedSample,
    TextSample,
    VidQASample,
    VQAOCRSample,
    VQASample,
)

T = TypeVar("T")

_DEFAULT_DECODER = SampleDecoder()


class BaseCoreDatasetFactory(SampleFactory, Generic[T]):
    """The base class of all factories. Factories open no datasets: pass the path to `get_train_dataset`."""

    __sample_type__: ClassVar[Any] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__sample_type__ is not None and not cls.__module__.startswith(f"{OUR_PACKAGE}."):
            register_factory(cls)

    def build(self, worker_rotation_offset: int = 0) -> NoReturn:  # noqa: ARG002 - Energon's
        """Raises UsageError."""
        raise _no_dataset_error(type(self))

    def as_file_store(self) -> NoReturn:
        """Raises UsageError."""
        raise _no_dataset_error(type(self))

    def __len__(self) -> NoReturn:
        """Raises UsageError."""
        raise _no_dataset_error(type(self))


class BaseWebdatasetFactory(BaseCoreDatasetFactory[T]):
    """The base class of factories of tar shards. `prepare_dataset` prepares a folder of them for training."""

    prepare_dataset = staticmethod(prepare_dataset)

    def __init__(self, path: EPath, **options: Any) -> None:
        """`options`: Energon's, such as `split_part` and `worker_config`; they are those of the dataset here."""
        self.path = path
        for name, value in options.items():
            setattr(self, name, value)


class CrudeJsonlDatasetFactory(BaseCoreDatasetFactory[CrudeSample]):
    """The base class of factories of JSONL files. `prepare_dataset` prepares a file for training."""

    prepare_dataset = staticmethod(prepare_jsonl)

    def __init__(self, path: EPath, **options: Any) -> None:
        """`options`: Energon's; they are those of the dataset here."""
        self.path = path
        for name, value in options.items():
            setattr(self, name, value)


class DefaultCrudeJsonlDatasetFactory(CrudeJsonlDatasetFactory):
    """The same."""


class DefaultGenericWebdatasetFactory(BaseWebdatasetFactory[T]):
    """A factory that fills the fields of samples by a field map, or by a function of the parts."""

    def __init__(
        self,
        path: EPath,
        *,
        subflavors: dict[str, Any] | None = None,
        field_map: Mapping[str, str] | None = None,
        sample_loader: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        part_filter: Callable[[str], bool] | Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, part_filter=part_filter, **options)
        self.subflavors = subflavors or {}
        self._sample_loader = sample_loader or _field_loader(field_map or {})

    def load_sample(self, sample: dict[str, Any]) -> Any:
        """A sample from its parts and base fields. Raises SampleFailed if a part of the field map is missing."""
        base = {name: sample[name] for name in BASE_FIELDS if name in sample}
        return self.__sample_type__(**{**base, **self._sample_loader(sample)})


class DefaultDecoderWebdatasetFactory(DefaultGenericWebdatasetFactory[T]):
    """A factory that decodes parts by `_decoder`: a function of a dict of parts, a SampleDecoder, or None for bytes."""

    def __init__(
        self,
        path: EPath,
        *,
        decoder: SampleDecoder | None = _DEFAULT_DECODER,
        auto_decode: bool = True,
        **options: Any,
    ) -> None:
        self._decoder: Any = decoder if auto_decode else None
        self.auto_decode = auto_decode
        self.image_decode = "torchrgb" if decoder is None else decoder.image_decode
        super().__init__(path, **options)

    def load_sample(self, sample: dict[str, Any]) -> Any:
        if isinstance(self._decoder, SampleDecoder):
            return super().load_sample({**sample, **_decode_parts(self._decoder, sample)})
        return super().load_sample(sample if self._decoder is None else self._decoder(sample))

    @classmethod
    def own_loader(
        cls, path: str, decoder: SampleDecoder | None, **options: Any
    ) -> Callable[[dict[str, Any]], Any] | None:
        given = _DEFAULT_DECODER if decoder is None else decoder
        try:
            factory = cls(EPath(path), decoder=given, **options)
        except TypeError as error:
            raise UsageError(
                f"cannot create {cls.__name__} of dataset.yaml: {error}",
                where=path,
                hint="give the arguments of its __init__ defaults, and pass **options on to the base class",
                code="WDS220",
            ) from error
        is_own = factory._decoder is not given or cls.load_sample is not DefaultDecoderWebdatasetFactory.load_sample
        return factory.load_sample if is_own else None


class StandardWebdatasetFactory(DefaultDecoderWebdatasetFactory[T]):
    """A factory whose sample type is an argument."""

    def __init__(self, path: EPath, *, sample_type: type[Any], **options: Any) -> None:
        self.__sample_type__ = sample_type  # type: ignore[misc]  # as in Energon, of the object
        super().__init__(path, **options)


class CaptioningWebdataset(DefaultDecoderWebdatasetFactory[CaptioningSample]):
    __sample_type__ = CaptioningSample


class ImageClassificationWebdataset(DefaultDecoderWebdatasetFactory[ImageClassificationSample]):
    __sample_type__ = ImageClassificationSample


class ImageWebdataset(DefaultDecoderWebdatasetFactory[ImageSample]):
    __sample_type__ = ImageSample


class InterleavedWebdataset(DefaultDecoderWebdatasetFactory[InterleavedSample]):
    __sample_type__ = InterleavedSample


class MultiChoiceVQAWebdataset(DefaultDecoderWebdatasetFactory[MultiChoiceVQASample]):
    __sample_type__ = MultiChoiceVQASample


class OCRWebdataset(DefaultDecoderWebdatasetFactory[OCRSample]):
    __sample_type__ = OCRSample


class SimilarityInterleavedWebdataset(DefaultDecoderWebdatasetFactory[SimilarityInterleavedSample]):
    __sample_type__ = SimilarityInterleavedSample


class TextWebdataset(DefaultDecoderWebdatasetFactory[TextSample]):
    __sample_type__ = TextSample


class VQAOCRWebdataset(DefaultDecoderWebdatasetFactory[VQAOCRSample]):
    __sample_type__ = VQAOCRSample


class VQAWebdataset(DefaultDecoderWebdatasetFactory[VQASample]):
    __sample_type__ = VQASample


class VidQAWebdataset(DefaultDecoderWebdatasetFactory[VidQASample]):
    __sample_type__ = VidQASample


def _field_loader(field_map: Mapping[str, str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from decoded parts to the fields of a sample."""
    paths = parse_field_map(field_map)

    def load_fields(parts: dict[str, Any]) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        fields = {}
        for field, path in paths.items():
            try:
                fields[field] = extract_field(path, parts, parsed)
            except FieldMissing as error:
                message = f"cannot fill field {field!r}: {error.message}"
                hint = "run `wdsctl validate DATASET --level schema` to find such samples, and complete them"
                raise SampleFailed(message, hint=hint, where=error.where) from error
        return fields

    return load_fields


def _decode_parts(decoder: SampleDecoder, sample: Mapping[str, Any]) -> dict[str, Any]:
    return {name: decoder(name, data) for name, data in sample.items() if name not in BASE_FIELDS}


def _no_dataset_error(kind: type[Any]) -> UsageError:
    names = (each.__name__ for each in kind.__mro__)
    hint = next(FACTORIES[name] for name in names if name in FACTORIES)
    return UsageError(f"{kind.__name__} opens no dataset", hint=hint)
