"""The kind `lapsvm`: the Laplacian support vector machine, `laprls` with another loss.

    model     least loss of the labels, with penalties on the norm and on how much the function varies along the graph
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from dataclasses import replace

from .laprls import LAPRLS
from .specs import SPECS

LAPSVM = replace(LAPRLS, **vars(SPECS["lapsvm"]), words=replace(
    LAPRLS.words, model="A support vector machine on the labels, with penalties on the norm and on how much the "
                        "function varies along the graph."))
