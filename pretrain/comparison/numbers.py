"""Figures as people write them."""

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    """``804224`` as ``804k``, ``7348224`` as ``7.35M``; three digits that count."""
    for size, unit in _UNITS:
        if abs(value) >= 0.9995 * size:
            return f"{_three_digits(value / size)}{unit}"
    return f"{value:.0f}"


def whole(value: float) -> str:
    """``2000`` as ``2,000``."""
    return f"{value:,.0f}"


def nats(value: float) -> str:
    """A loss, in nats."""
    return f"{value:.4f}"


def percent(value: float) -> str:
    """A share from 0 to 1."""
    return f"{100 * value:.1f} %"


def mebibytes(value: float) -> str:
    """Memory."""
    return f"{value / 1024:.1f} GiB" if value >= 10_240 else f"{value:,.0f} MiB"


def duration(seconds: float) -> str:
    """``12 s``, ``2 min 47 s``, ``48 min``, ``2 h 8 min``, ``3 d 4 h``."""
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    minutes, rest = divmod(whole_seconds, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _three_digits(value: float) -> str:
    places = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{places}f}"
