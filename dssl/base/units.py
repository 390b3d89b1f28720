"""Bytes and seconds as people read them."""


def size_text(nbytes: float) -> str:
    """Return bytes with a unit in powers of 1,000, such as "1.2 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.5 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def size_setting(nbytes: int, *, up: bool) -> str:
    """Return a size as options accept it, rounded up or down to three digits, such as "1.24GB"."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if nbytes >= 10**power:
            step = 10 ** max(len(str(nbytes)) - 3, 0)
            return f"{(-(-nbytes // step) if up else nbytes // step) * step / 10**power:.12g}{unit}"
    return f"{nbytes}B"


def time_text(seconds: float) -> str:
    """Return a duration with a unit, such as "1.5 min"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 0.95 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 9.5 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
