"""A disk that is full."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(n_bytes=4096):
    """No file of this process grows beyond ``n_bytes``."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
