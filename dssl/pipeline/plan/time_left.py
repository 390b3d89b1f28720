"""The seconds that a run still takes: what its plan estimates, times what its stages have taken beside that so far."""

import time
from collections.abc import Callable

PRIOR_SECONDS = 3.0  # for which the plan counts as much as what stages took
SOON = 0.05  # share of a stage's tasks from which on their rate counts, and not the plan
LATE = 0.1  # of the time that a stage has taken, which it takes at least once it is late


class TimeLeft:
    """What is known of the stages of a run, and what follows for those that are left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._estimated = self._took = PRIOR_SECONDS
        self._stage: float | None = None  # what the stage under way was estimated at
        self._later = 0.0
        self._begun = clock()

    def begin(self, estimated: float | None, later: float) -> None:
        """Note that a stage begins; estimated : seconds of it, later : of those after it."""
        self._stage, self._later, self._begun = estimated, later, self._clock()

    def end(self, seconds: float, made: bool) -> None:
        """Note that the stage has ended; made : whether it was not cached."""
        if made and self._stage is not None:
            self._estimated += self._stage
            self._took += seconds
        self._stage = None

    @property
    def factor(self) -> float:
        """Return how many times the plan's estimate the stages so far took."""
        return self._took / self._estimated

    def left(self, time_left: float | None = None) -> float:
        """Return the seconds left.

        time_left : of the stage under way by the rate of its tasks, None where that is not known.
        """
        later = self.factor * self._later
        if self._stage is None:
            return later
        elapsed = self._clock() - self._begun
        if time_left is not None:
            return time_left + later
        return max(self.factor * self._stage - elapsed, LATE * elapsed) + later
