"""How much more than its tensors a process holds: what the C library's allocator makes of them.

On a CPU torch asks malloc for each tensor. Freed blocks are used again only where the next one
fits, so the process can hold half as much again as its tensors. How blocks fit depends on the C
library, so it is asked: the sequence of sizes and lifetimes is gone through once more with blocks
that nobody writes to, which costs no memory, in a process of its own: this file is its program.
"""

import ctypes
import json
import random
import subprocess
import sys
from collections.abc import Iterable

_ALIGNMENT = 64  # of torch's tensors on a CPU
# Beside the data of each tensor live, on the same heap, what describes it and one or two views of
# it: TensorImpl, StorageImpl, autograd's metadata, version counter, graph node, its edges, saved
# variables and sizes. They keep holes from joining; from a dozen on their number hardly matters.
_SMALL_OBJECTS, _SMALL_SIZES = 16, (32, 40, 48, 64, 80, 96, 120, 200, 300)


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
    command = [sys.executable, __file__]
    done = subprocess.run(
        command, input=json.dumps(list(events)), stdout=subprocess.PIPE, text=True, check=True
    )
    peak: int | None = json.loads(done.stdout)
    return peak


def _peak_here(events: Iterable[tuple[int, int]]) -> int | None:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _MallInfo2
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    blocks: dict[int, list[int]] = {}
    draw = random.Random(0)
    start, peak = _held(library), 0
    for key, size in events:
        if size == 0:
            for address in blocks.pop(key, ()):
                library.free(address)
            continue
        aligned = _aligned(library, size)
        if aligned is None:
            return None
        small = (library.malloc(draw.choice(_SMALL_SIZES)) for _ in range(_SMALL_OBJECTS))
        blocks[key] = [aligned, *small]
        peak = max(peak, _held(library) - start)
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


if __name__ == "__main__":
    print(json.dumps(_peak_here(json.load(sys.stdin))))
