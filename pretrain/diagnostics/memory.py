"""How much memory training takes at its peak, and for what, without training.

A few steps are run with whatever tensors the network holds, in the order of Lightning's loop. Under
torch's ``FakeTensorMode`` these have shapes and no content, so a network of any size is measured
on any machine, by the very operations that training will run.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pretrain.diagnostics.heap import heap_peak

WEIGHTS, GRADIENTS, STATES = "weights", "gradients", "optimizer states"
ACTIVATIONS, HEAD, COPIES = "activations", "head and loss", "autocast copies"
TEMPORARY, BUCKETS = "temporary", "communication buckets"
ALLOCATOR = "allocator"
_STEPS = 4  # the first makes gradients and states; the heap takes some more to find its shape


@dataclass(frozen=True)
class StepMemory:
    """Bytes on one device.

    Attributes:
        parts: What is held at the peak, by part, in bytes.
        moment: Where in training the peak is.
        kept: Weights and optimizer states, in bytes: what a checkpoint holds.
        events: Every storage's key and size, in the order of creation, and 0 at its end.
    """

    parts: dict[str, int]
    moment: str
    kept: int
    events: list[tuple[int, int]] = field(repr=False, compare=False)

    @property
    def peak(self) -> int:
        """The sum of the parts."""
        return sum(self.parts.values())

    def divided(self, n_processes: int) -> "StepMemory":
        """What one process holds where weights, gradients and states are divided over all."""
        parts = {
            name: -(-n_bytes // n_processes) if name in (WEIGHTS, GRADIENTS, STATES) else n_bytes
            for name, n_bytes in self.parts.items()
        }
        return replace(self, parts=parts)

    def on_heap(self) -> "StepMemory":
        """The same with what malloc holds beyond the tensors: see ``heap.py``."""
        peak = heap_peak(self.events)
        if peak is None or peak <= self.peak:
            return self
        return replace(self, parts={**self.parts, ALLOCATOR: peak - self.peak})


class MemoryTracker(TorchDispatchMode):
    """Counts the bytes of every storage from its creation to its end, by part.

    Args:
        true_share: Share of a mask's entries that count as set where an operation's result has as
            many rows as there are (tensors without content can't tell).

    Attributes:
        part: What newly made storages belong to.
        moment: What is going on, for the name of the peak.
        held: Bytes held now, by part.
        peak: A copy of ``held`` at the moment when it was largest in sum.
        peak_moment: The ``moment`` of that.
        events: As in ``StepMemory``.
    """

    def __init__(self, true_share: float = 0.5) -> None:
        super().__init__()
        self.true_share = true_share
        self.part, self.moment = TEMPORARY, ""
        self.held: Counter[str] = Counter()
        self.peak: dict[str, int] = {}
        self.peak_moment = ""
        self.events: list[tuple[int, int]] = []
        self._parts: dict[int, str] = {}  # of each living storage
        self._alive: dict[int, Any] = {}  # weak references, whose callbacks count backwards

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        body = _body(func)
        is_fake = bool(args) and isinstance(args[0], FakeTensor)
        if is_fake and func is torch.ops.aten.nonzero.default:
            n_rows = round(args[0].numel() * self.true_share)
            result = args[0].new_empty((n_rows, args[0].ndim), dtype=torch.int64)
        elif is_fake and func is torch.ops.aten.bincount.default:
            result = args[0].new_empty(kwargs.get("minlength", args[-1]))
        elif body is not None:
            with self:
                result = body(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        is_copy = func is torch.ops.aten._to_copy.default and self.part_of(args[0]) == WEIGHTS
        self._note(tree_leaves(result), COPIES if is_copy else self.part)
        return result

    def part_of(self, tensor: Tensor) -> str | None:
        """The part that a tensor's storage belongs to; None if it was never noted."""
        return self._parts.get(_key(tensor))

    def assign(self, tensors: Iterable[Tensor], part: str) -> None:
        """Let these tensors' storages belong to ``part`` from now on."""
        for tensor in tensors:
            key = _key(tensor)
            if key in self._parts:
                n_bytes = tensor.untyped_storage().nbytes()
                self.held[self._parts[key]] -= n_bytes
                self.held[part] += n_bytes
                self._parts[key] = part
            else:
                self._note([tensor], part)

    def _note(self, values: list[Any], part: str) -> None:
        for value in values:
            if not isinstance(value, Tensor) or _key(value) in self._parts:
                continue
            storage = value.untyped_storage()
            key, n_bytes = _key(value), storage.nbytes()
            self._parts[key] = part
            self._alive[key] = weakref.ref(storage, partial(self._forget, key, n_bytes))
            self.held[part] += n_bytes
            if n_bytes:
                self.events.append((key, n_bytes))
        if sum(self.held.values()) > sum(self.peak.values()):
            self.peak = {name: n_bytes for name, n_bytes in self.held.items() if n_bytes}
            self.peak_moment = self.moment

    def _forget(self, key: int, n_bytes: int, _: Any) -> None:
        del self._alive[key]
        self.events.append((key, 0))
        self.held[self._parts.pop(key)] -= n_bytes


def step_memory(
    module: Any,
    batch: dict[str, Tensor],
    optimizer: Any,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
    n_processes: int = 1,
) -> StepMemory:
    """The peak over a few training steps and a look at the validation split.

    Args:
        module: A task whose network is built; its tensors may be fake.
        batch: One micro-batch, of the same kind of tensors.
        optimizer: Of the module's parameters; none of its states may be there yet.
        autocast: What matrix products are computed in under mixed precision.
        accumulate: Micro-batches per step.
        n_processes: How many train together; from 2 on gradients are held a second time, in the
            buckets that they are exchanged in.
    """
    n_experts = module.config.n_experts
    tracker = MemoryTracker(1 / n_experts if n_experts else 0.5)  # experts that share evenly
    parameters = list(module.parameters())
    hooks = [
        p.register_post_accumulate_grad_hook(lambda p: tracker.assign([p.grad], GRADIENTS))
        for p in parameters
        if p.requires_grad
    ]
    hooks.append(module.transformer.register_forward_hook(partial(_enter_head, tracker)))
    tracker.assign([*parameters, *module.buffers()], WEIGHTS)
    tracker.assign(batch.values(), ACTIVATIONS)
    device = parameters[0].device.type
    context = partial(torch.autocast, device, autocast, enabled=autocast is not None)
    try:
        with tracker:
            if n_processes > 1:
                buckets = [torch.empty_like(p) for p in parameters if p.requires_grad]
                tracker.assign(buckets, BUCKETS)
            module.train()
            for _ in range(_STEPS):
                for micro_batch in range(min(accumulate, 2)):
                    _backward(tracker, module, batch, optimizer, micro_batch == 0, context)
                _update(tracker, optimizer, parameters)
            _validate(tracker, module, batch, context)
    finally:
        for hook in hooks:
            hook.remove()
    kept = tracker.held[WEIGHTS] + tracker.held[STATES]
    return StepMemory(tracker.peak, tracker.peak_moment, kept, tracker.events)


def _enter_head(tracker: MemoryTracker, *_: Any) -> None:
    tracker.part = HEAD


def _backward(
    tracker: MemoryTracker, module: Any, batch: Any, optimizer: Any, is_first: bool, context: Any
) -> None:
    tracker.part, tracker.moment = ACTIVATIONS, "forward pass"
    with context():
        sums = module.losses(batch)
        loss = sums.objective / sums.n_targets
    if is_first:  # where Lightning does it: the old gradients live through the forward pass
        optimizer.zero_grad()
    tracker.part, tracker.moment = TEMPORARY, "backward pass"
    loss.backward()


def _update(tracker: MemoryTracker, optimizer: Any, parameters: list[nn.Parameter]) -> None:
    tracker.moment = "optimizer step"
    optimizer.gate = torch.ones((), dtype=torch.bool, device=parameters[0].device)
    optimizer.step()
    states = (value for state in optimizer.state.values() for value in state.values())
    tracker.assign((value for value in states if isinstance(value, Tensor)), STATES)


def _validate(tracker: MemoryTracker, module: Any, batch: Any, context: Any) -> None:
    tracker.part, tracker.moment = ACTIVATIONS, "validation"
    module.eval()
    score = getattr(module, "scores", None) or module.logits
    with torch.no_grad(), context():
        score(batch)


def _body(func: Any) -> Callable[..., Any] | None:
    """The Python body of an operation made of others, whose memory would go unseen; else None."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace in ("aten", "prim"):
        return None
    definition = torch._library.custom_ops.OPDEFS.get(func._schema.name)
    return None if definition is None else definition._init_fn


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
