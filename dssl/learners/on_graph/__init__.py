"""Learners whose function lives on the vertices of a graph: harmonic, Poisson, ridge in graph kernels."""
