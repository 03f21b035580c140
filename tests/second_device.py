"""A device that is not there: a test sees on a CPU what would fail on a GPU.

Tensors that are moved to it stay in the CPU's memory and are remembered. As on CUDA, a function
refuses tensors of both sides (but for single numbers and indices of the host), and numpy sees what
was brought back alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

THERE = torch.device("cpu", 1)
"""Of the CPU's type, for autocast; no real tensor has this index."""

HOST = torch.device("cpu")
BROUGHT_BACK = {torch.Tensor.numpy, torch.Tensor.__array__}
MIXED = {
    torch.Tensor.__getitem__,
    torch.Tensor.__setitem__,
    torch.Tensor.__deepcopy__,
    torch.Tensor.copy_,
    torch.Tensor.data.__set__,
    torch._has_compatible_shallow_copy_type,
}
"""What takes indices or values of the other side; what comes out is where the first one is."""


class SecondDevice(TorchFunctionMode):
    """While it is entered, `tensor.to(THERE)` moves a tensor there."""

    def __init__(self) -> None:
        super().__init__()
        self._there = WeakTensorKeyDictionary()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        seen = args[:1] if func in MIXED else (args, given)
        tensors = [leaf for leaf in tree_leaves(seen) if isinstance(leaf, Tensor)]
        if func == torch.Tensor.device.__get__:
            return THERE if self.holds(args[0]) else func(*args)
        if func is torch.Tensor.to:
            return self._moved(*args, **given)
        if func is torch.Tensor.cpu:
            return args[0].clone() if self.holds(args[0]) else args[0]
        if func in BROUGHT_BACK and self.holds(args[0]):
            raise TypeError("can't convert a tensor of the second device to numpy: bring it back")
        asked = given.get("device")
        if asked == THERE:
            given["device"] = HOST
        sides = {self.holds(tensor) for tensor in tensors if self.holds(tensor) or tensor.dim()}
        if len(sides) > 1:
            raise RuntimeError(f"{func.__name__} has tensors of the host and of the second device")
        found = func(*args, **given)
        there = asked == THERE if asked is not None else any(map(self.holds, tensors))
        if func == torch.Tensor.data.__set__ and self.holds(args[1]):
            self._there[args[0]] = True
        return tree_map(self._keep, found) if there else found

    def holds(self, tensor: Tensor) -> bool:
        return tensor in self._there

    def _keep(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            self._there[found] = True
        return found

    def _moved(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor.to` with a device, another tensor, or a dtype alone."""
        target, dtype = THERE if self.holds(tensor) else HOST, tensor.dtype
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                target, dtype = THERE if self.holds(value) else HOST, value.dtype
            elif isinstance(value, torch.device | str):
                target = torch.device(value)
            elif isinstance(value, torch.dtype):
                dtype = value
        found = tensor.to(dtype, copy=kwargs.get("copy", False))
        if (target == THERE) == self.holds(tensor):
            return self._keep(found) if target == THERE else found
        found = found.clone() if found is tensor else found
        return self._keep(found) if target == THERE else found
