"""Ranks that fit a budget, the room of a worker, and what a cost says of seconds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.execution.cost import (
    MATRICES,
    SCHEDULED_SECONDS,
    TASK_SECONDS,
    WORKER_BYTES,
    WorkerRoom,
    cost_of,
    largest_within,
    rank_budget,
)


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**4))
def test_the_largest_that_fits(budget, upper_bound, each):
    actual = largest_within(budget, upper_bound, lambda s: each * s * s)
    assert 0 <= actual <= upper_bound
    assert actual == 0 or each * actual * actual <= budget
    assert actual == upper_bound or each * (actual + 1) ** 2 > budget


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(0, 10**9))
def test_a_larger_budget_has_no_smaller_rank(budget, upper_bound, more):
    rank = largest_within(budget, upper_bound, rank_budget)
    assert rank <= largest_within(budget + more, upper_bound, rank_budget)
    assert rank == 0 or MATRICES * np.zeros((rank, 1)).nbytes * rank <= budget / 2


def test_seconds_are_of_computing_bytes_and_tasks_and_workers_share_the_tasks():
    cost = cost_of(5, 7e8, 0, 0, seconds=10.0)
    assert cost.core_seconds == pytest.approx(10 + 2 + 5 * TASK_SECONDS)
    assert cost.wall_seconds(2) == pytest.approx(cost.core_seconds * 3 / 5)
    assert cost_of(0, 0, 0, 0, seconds=4.0).wall_seconds(100) == 4.0


def test_however_many_workers_there_are_the_scheduler_hands_out_one_task_after_the_other():
    cost = cost_of(10_000, 0, 0, 0)
    assert cost.wall_seconds(10_000) == pytest.approx(SCHEDULED_SECONDS * 10_000)


def test_the_room_of_a_worker_is_what_it_has_before_it_is_paused():
    assert WorkerRoom(4 << 30).room == int(0.8 * (4 << 30)) - WORKER_BYTES
    assert WorkerRoom(4 << 30, 2).room == WorkerRoom(4 << 30).room // 2
    assert WorkerRoom(100 << 20).room == 0  # no task fits
