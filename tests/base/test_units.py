"""Sizes as people read and write them."""

import pytest

from dssl.base.units import size_of, size_setting


@pytest.mark.parametrize(("nbytes", "up", "down"), [
    (7, "7B", "7B"), (1000, "1kB", "1kB"), (1001, "1.01kB", "1kB"), (197_376, "198kB", "197kB"),
    (1 << 28, "269MB", "268MB"), (999_999_999, "1000MB", "999MB"), (1_234_000_000, "1.24GB", "1.23GB"),
    (3 << 40, "3300GB", "3290GB")])
def test_settings_are_sizes_that_suffice_or_fit(nbytes, up, down):
    assert (size_setting(nbytes, up=True), size_setting(nbytes, up=False)) == (up, down)
    assert size_of(down) <= nbytes <= size_of(up)
