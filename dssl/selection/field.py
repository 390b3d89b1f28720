"""A Gaussian field on the vertices of a graph, and what is left of its variance once some of them are observed.

    C = S U (Lambda + ridge I)^-power U' S = B B'

with the lowest eigenpairs of the Laplacian and S a scale of the vertices. Conditioned on noisy values at some vertices
the covariance is `B P B'`, and each further one takes a rank-one matrix from P (k, k): nothing here is n x n.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

NOISE = 0.1  # variance of what a label says, where the field's mean variance is 1


@dataclass(eq=False)
class Field:
    """The field after some observations; `observe` changes it.

    B (v, k) : of the prior covariance `B B'`. mass (v,) : the points that a vertex stands for. P (k, k). noise : the
    variance of an observation.
    variance (v,) : the diagonal of `B P B'`. trace_drop (v,) : by how much observing a vertex lowers the trace over
    points, times the variance of that observation. row_sum (v,) : of `B P B'`, over points.
    """

    B: np.ndarray
    mass: np.ndarray
    noise: float
    P: np.ndarray
    variance: np.ndarray
    trace_drop: np.ndarray
    row_sum: np.ndarray

    @classmethod
    def of(cls, B: np.ndarray, mass: np.ndarray, observed: np.ndarray, noise: float = NOISE) -> Self:
        """Return the field of a prior `B B'`, scaled to a mean variance of 1 over points, after some observations.

        observed : distinct vertices. Memory: B once more, and 8 k^2 bytes.
        """
        B = B / np.sqrt(mass @ np.einsum("vk,vk->v", B, B) / mass.sum())
        B_o, k = B[observed], B.shape[1]
        P = np.eye(k)
        if len(B_o):  # I - B_o' (B_o B_o' + noise I)^-1 B_o, by the smaller system
            P = noise * cho_solve(cho_factor(B_o.T @ B_o + noise * P), P)
        G = B.T @ (mass[:, None] * B)
        PGP = P @ G @ P
        return cls(B, mass, noise, P, np.einsum("vk,vk->v", B @ P, B), np.einsum("vk,vk->v", B @ PGP, B),
                   B @ (P @ (mass @ B)))

    def observe(self, vertex: int) -> None:
        """Condition on one more vertex: a rank-one matrix less, three products with B."""
        u = self.P @ self.B[vertex]
        spread = self.noise + float(self.B[vertex] @ u)
        covariance = self.B @ u  # of all vertices with this one
        Gu = self.B.T @ (self.mass * covariance)
        self.trace_drop += covariance * (covariance * float(u @ Gu) / spread - 2 * (self.B @ (self.P @ Gu))) / spread
        self.row_sum -= covariance * float(self.mass @ covariance) / spread
        self.variance -= covariance**2 / spread
        self.P -= np.outer(u, u) / spread
        for rounded in (self.variance, self.trace_drop):
            np.maximum(rounded, 0.0, out=rounded)

    def trace_decrease(self) -> np.ndarray:
        """Return by how much observing each vertex lowers the trace of the covariance of all points (v,)."""
        return self.trace_drop / (self.noise + self.variance)

    def sum_decrease(self) -> np.ndarray:
        """Return by how much observing each vertex lowers the sum of the covariance of all points (v,)."""
        return self.row_sum**2 / (self.noise + self.variance)
