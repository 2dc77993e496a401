"""How much more than its tensors a process holds: what the C library's allocator makes of them.

On a CPU torch asks malloc for each tensor. Freed blocks are used again only where the next one
fits, so the process can hold half as much again as its tensors. How blocks fit depends on the C
library, so it is asked: the sequence of sizes and lifetimes is gone through once more with blocks
that nobody writes to, which costs no memory.
"""

import ctypes
import random
from collections.abc import Iterable

_ALIGNMENT = 64  # of torch's tensors on a CPU
# Beside each tensor live, on the same heap: TensorImpl, StorageImpl, autograd's metadata, version
# counter, graph node, its edges, its saved variables and sizes. They keep holes from joining.
_SMALL_OBJECTS, _SMALL_SIZES = 8, (32, 40, 48, 64, 80, 96, 120, 200, 300)


class _MallInfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def heap_peak(events: Iterable[tuple[int, int]]) -> int | None:
    """The most that the C library takes from the system for these blocks, in bytes.

    Args:
        events: A block's key and its size; 0 at its end.

    Returns:
        None where the library does not tell (it is not glibc), or memory can't be reserved.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _MallInfo2
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.malloc_trim(0)
    blocks: dict[int, list[int | None]] = {}
    draw = random.Random(0)
    start, peak = _held(library), 0
    try:
        for key, size in events:
            if size == 0:
                for address in blocks.pop(key, ()):
                    library.free(address)
                continue
            address = _aligned(library, size)
            if address is None:
                return None
            small = (library.malloc(draw.choice(_SMALL_SIZES)) for _ in range(_SMALL_OBJECTS))
            blocks[key] = [address, *small]
            peak = max(peak, _held(library) - start)
    finally:
        for addresses in blocks.values():
            for address in addresses:
                library.free(address)
        library.malloc_trim(0)
    return peak


def _held(library: ctypes.CDLL) -> int:
    figures = library.mallinfo2()
    return int(figures.arena + figures.hblkhd)


def _aligned(library: ctypes.CDLL, size: int) -> int | None:
    pointer = ctypes.c_void_p()
    failed = library.posix_memalign(
        ctypes.byref(pointer), ctypes.c_size_t(_ALIGNMENT), ctypes.c_size_t(size)
    )
    return None if failed else pointer.value
