"""Ranks that fit a budget: the largest that does, one where none does, and never fewer of a larger budget."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dssl.execution.cost import MATRICES, largest_within, rank_budget


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**4))
def test_the_largest_that_fits(budget, most, each):
    found = largest_within(budget, most, lambda s: each * s * s)
    assert 0 <= found <= most
    assert found == 0 or each * found * found <= budget
    assert found == most or each * (found + 1) ** 2 > budget


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(0, 10**9))
def test_a_larger_budget_has_no_smaller_rank(budget, most, more):
    rank = largest_within(budget, most, rank_budget)
    assert rank <= largest_within(budget + more, most, rank_budget)
    assert rank == 0 or MATRICES * np.zeros((rank, 1)).nbytes * rank <= budget / 2
