"""The task encoder: the hooks that turn samples into batches. Override the hooks that a training needs."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wdsctl.core.errors import UsageError
from wdsctl.loader.batching.collate import batch_to_type, convert_to_type, generic_batch
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.runtime import position
from wdsctl.loader.runtime.identity import qualified_name
from wdsctl.loader.stores.cookers import Cooker

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar as Defaulted

    # With defaults, `class Mine(DefaultTaskEncoder)` needs no parameters. In Python from 3.13 on.
    T_sample = Defaulted("T_sample", default=Any)
    T_encoded_sample = Defaulted("T_encoded_sample", default=Any)
    T_raw_batch = Defaulted("T_raw_batch", default=Any)
    T_batch = Defaulted("T_batch", default=Any)
else:
    T_sample = TypeVar("T_sample")
    T_encoded_sample = TypeVar("T_encoded_sample")
    T_raw_batch = TypeVar("T_raw_batch")
    T_batch = TypeVar("T_batch")

#: In the order in which they run.
HOOKS = (
    "cook_crude_sample",
    "encode_sample",
    "preencode_sample",
    "select_samples_to_pack",
    "postencode_sample",
    "pack_selected_samples",
    "batch_group_criterion",
    "batch",
    "encode_batch",
)

_TYPE_ATTRIBUTES = {"encode_sample": "_encoded_sample_type", "batch": "_raw_batch_type", "encode_batch": "_batch_type"}


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Hooks: crude sample -> cooker -> sample -> `encode_sample` -> packs -> groups -> `batch` -> `encode_batch`.

    `decoder` decodes the parts before the first hook; None keeps bytes. `cookers` build samples from crude samples.
    A hook that is not overridden costs nothing. For one that is, the loader seeds the random generators (torch on the
    CPU, numpy, random) from its sample or batch, so that a resumed run draws the same numbers.

    A hook may raise SkipSample to drop its input, and may be a generator of any number of outputs; except
    `select_samples_to_pack`, `batch_group_criterion`, and `postencode_sample` under packing.
    """

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: Sequence[Cooker] = ()

    @property
    def current_sample_index(self) -> int:
        """Within a hook: a number of its input (a sample, pack or batch), 63 bits, which no other input of the job has.

        It is the same on any number of ranks and workers, after a resume, and in `restore_sample`. Numbers do not count
        up. Raises LoaderError outside of hooks.
        """
        return position.current_sample_index()

    @property
    def current_batch_index(self) -> int:
        """Within a hook: the number of the current batch of this rank, from 0; in a validation, within the pass.

        It is equal on all ranks at the same step, whatever the workers. After a resume, `batch` and `encode_batch` see
        the number that they would have seen. On another number of ranks, numbers are those of a job that began with
        these ranks; with a smaller batch size, those of a job that began with it. Hooks of samples that waited for a
        pack or a group may see a later number. Raises LoaderError outside of hooks, and in `restore_sample`.
        """
        return position.current_batch_index()

    def cook_crude_sample(self, sample: dict[str, Any], cooker: Cooker, aux: Mapping[str, Any]) -> Any:
        """Build a sample from a crude sample with the cooker of its dataset, which gets the stores `aux` by name."""
        return cooker.cook(sample, **aux)

    def encode_sample(self, sample: T_sample) -> Any:
        """Transform one sample for the batch."""
        return sample

    def preencode_sample(self, sample: T_sample) -> Any:
        """The part of `encode_sample` before packing: what `select_samples_to_pack` needs. Replaces `encode_sample`."""
        return sample

    def postencode_sample(self, sample: Any) -> Any:
        """The part of `encode_sample` after the samples of a pack are selected; without packing, right away."""
        return sample

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:  # noqa: ARG002 - for who overrides it
        """Divide a buffer of `packing_buffer_size` samples into lists, one per pack. Other samples are dropped."""
        raise _no_default_error("select_samples_to_pack")

    def pack_selected_samples(self, samples: list[Any]) -> Any:  # noqa: ARG002 - for who overrides it
        """Join the samples of a pack into one sample."""
        raise _no_default_error("pack_selected_samples")

    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:  # noqa: ARG002 - for who overrides it
        """(group, batch size) of a sample: batches have samples of one group. None: the dataset's `batch_size`."""
        raise _no_default_error("batch_group_criterion")

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """Collate samples to a batch: see `generic_batch`."""
        batch: T_raw_batch = generic_batch(samples)
        return batch

    def encode_batch(self, batch: T_raw_batch) -> Any:
        """Transform the batch for the training loop."""
        return batch


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """A task encoder that can convert samples and batches to types, field by field, by name.

    Types may be dataclasses, NamedTuples or dict. `encoded_sample_type`: after `encode_sample`; `raw_batch_type`: after
    `batch`; `batch_type`: after `encode_batch`. Any hook can be overridden. Hooks raise LoaderError if a field is
    missing.
    """

    # Class attributes, for subclasses that do not call this constructor.
    _encoded_sample_type: type[Any] | None = None
    _raw_batch_type: type[Any] | None = None
    _batch_type: type[Any] | None = None

    def __init__(
        self,
        *,
        encoded_sample_type: type[T_encoded_sample] | None = None,
        raw_batch_type: type[T_raw_batch] | None = None,
        batch_type: type[T_batch] | None = None,
    ) -> None:
        self._encoded_sample_type = encoded_sample_type
        self._raw_batch_type = raw_batch_type
        self._batch_type = batch_type

    def encode_sample(self, sample: T_sample) -> Any:
        """The sample as `encoded_sample_type`."""
        return convert_to_type(sample, self._encoded_sample_type)

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """The default batch as `raw_batch_type`; types with a `from_samples` method build it themselves."""
        batch: T_raw_batch = batch_to_type(samples, self._raw_batch_type)
        return batch

    def encode_batch(self, batch: T_raw_batch) -> Any:
        """The batch as `batch_type`."""
        return convert_to_type(batch, self._batch_type)


class AugmentTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """A wrapper of another task encoder: derive from it, and override the hooks that should differ.

    What is not overridden is the inner encoder's: decoder, cookers and hooks. A hook that neither overrides costs
    nothing. `super().encode_sample(sample)` calls the inner hook, as `self.inner.encode_sample(sample)` does.
    """

    def __init__(self, task_encoder: TaskEncoder[Any, Any, Any, Any]) -> None:
        self.inner = task_encoder
        if type(self).decoder is TaskEncoder.decoder:
            self.decoder = task_encoder.decoder
        if type(self).cookers is TaskEncoder.cookers:
            self.cookers = task_encoder.cookers
        for hook in HOOKS:
            if getattr(type(self), hook) is getattr(AugmentTaskEncoder, hook):
                setattr(self, hook, getattr(task_encoder, hook))


def _delegate_hook(hook: str) -> Callable[..., Any]:
    """The target of `super()` in a wrapper: the inner encoder's hook, not the default."""

    @functools.wraps(getattr(TaskEncoder, hook))
    def delegate(self: AugmentTaskEncoder, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, hook)(*args, **named)

    return delegate


for _hook in HOOKS:
    setattr(AugmentTaskEncoder, _hook, _delegate_hook(_hook))


def _no_default_error(hook: str) -> UsageError:
    return UsageError(
        f"{hook} has no default implementation, but was called",
        hint=f"override {hook} without calling super().{hook}()",
    )


def is_overridden(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> bool:
    """Whether a loader has to call the hook: it is overridden, or converts to a type."""
    function = _hook_function(encoder, hook)
    if function is getattr(DefaultTaskEncoder, hook):
        return function is not getattr(TaskEncoder, hook) and _conversion_type(encoder, hook) is not None
    return function is not getattr(TaskEncoder, hook)


def batch_function(
    encoder: TaskEncoder[Any, Any, Any, Any], memories: Sequence[BatchMemory] = ()
) -> Callable[[list[Any]], Any]:
    """`encoder.batch`, without a copy of images that were decoded into `memories`, unless the user overrides it."""
    if not is_overridden(encoder, "batch"):
        return functools.partial(generic_batch, memories=memories)
    if is_conversion(encoder, "batch"):
        return functools.partial(batch_to_type, target=_conversion_type(encoder, "batch"), memories=memories)
    return encoder.batch


def is_conversion(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> bool:
    """Whether the hook only converts to a type, which runs no user code and draws no random numbers."""
    return _hook_function(encoder, hook) is getattr(DefaultTaskEncoder, hook)


def task_encoder_config(encoder: TaskEncoder[Any, Any, Any, Any]) -> dict[str, Any]:
    """The encoder's classes and hooks by name, for the plan's fingerprint."""
    hooks = {hook: qualified_name(_hook_function(encoder, hook)) for hook in HOOKS if is_overridden(encoder, hook)}
    types = {hook: _conversion_type(encoder, hook) for hook in HOOKS}
    conversions = {hook: qualified_name(target) for hook, target in types.items() if target is not None}
    decoder = encoder.decoder.config() if encoder.decoder is not None else None
    return {"type": qualified_name(type(encoder)), "hooks": hooks, "conversions": conversions, "decoder": decoder}


def _conversion_type(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> type[Any] | None:
    """The type that a default hook converts to. A wrapper's hook may belong to the inner encoder."""
    owner = getattr(getattr(encoder, hook), "__self__", encoder)
    target: type[Any] | None = getattr(owner, _TYPE_ATTRIBUTES.get(hook, ""), None)
    return target


def _hook_function(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> Any:
    method = getattr(encoder, hook)
    return getattr(method, "__func__", method)
