"""Ranks that fit a budget: the largest that does, one where none does, and never fewer of a larger budget."""

from hypothesis import given
from hypothesis import strategies as st

from dssl.execution.cost import MATRICES, largest_within, rank_within


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**4))
def test_the_largest_that_fits(budget, most, each):
    found = largest_within(budget, most, lambda s: each * s * s)
    assert 0 <= found <= most
    assert found == 0 or each * found * found <= budget
    assert found == most or each * (found + 1) ** 2 > budget


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(0, 10**9))
def test_the_matrices_of_a_rank_take_half_a_budget_which_grows_no_rank_smaller(budget, most, more):
    rank = rank_within(budget, most)
    assert 1 <= rank <= most
    assert rank == 1 or 8 * MATRICES * rank * rank <= budget / 2
    assert rank == most or 8 * MATRICES * (rank + 1) ** 2 > budget / 2 - 8 * MATRICES
    assert rank <= rank_within(budget + more, most)
