"""dssl: distributed semi-supervised learning."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The public names and where they live. They are imported when first used, so that `import dssl` and `dssl --help`
# do not wait for everything.
_PUBLIC = {
    "Dataset": "dssl.data.dataset", "open_dataset": "dssl.data.ingest",
    "Graph": "dssl.graph.graph", "KNNGraph": "dssl.graph.knn_graph", "Laplacian": "dssl.graph.laplacian",
    "effective_resistances": "dssl.kernels.resistance",
    "amplified_resistance_kernel": "dssl.kernels.resistance",
    "graph_spectrum": "dssl.graph.spectrum", "neighbors": "dssl.knn.search", "weights": "dssl.graph.weights.build",
    "RegularizerParams": "dssl.graph.regularizer", "LandmarkParams": "dssl.kernels.landmarks",
    "SystemParams": "dssl.learners.laprls.params", "LabeledKFold": "dssl.selection.folds",
    "solve": "dssl.solvers.solve", "SolverParams": "dssl.solvers.solver_params",
    "SpectrumParams": "dssl.graph.spectrum",
    "LapSVC": "dssl.estimators.deformed", "LapKernelRidge": "dssl.estimators.deformed",
    "LapRLSClassifier": "dssl.estimators.laprls", "LapRLSRegressor": "dssl.estimators.laprls_regressor",
    "ClusterKernelSVC": "dssl.estimators.cluster", "ClusterKernelFeatures": "dssl.estimators.cluster",
    "TransferParams": "dssl.kernels.transfer", "StochasticParams": "dssl.kernels.stochastic",
    "LapSVM": "dssl.estimators.lapsvm", "LaplaceLearning": "dssl.estimators.laplace_learning",
    "LaplaceLearningRegressor": "dssl.estimators.laplace_learning",
    "PoissonLearning": "dssl.estimators.poisson_learning",
    "GraphKernelRidge": "dssl.estimators.graph_kernel_ridge",
    "GraphKernelRidgeRegressor": "dssl.estimators.graph_kernel_ridge",
    "SemiSupervisedClassifier": "dssl.estimators.automatic",
    "SemiSupervisedRegressor": "dssl.estimators.automatic", "GridSearch": "dssl.estimators.grid_search",
    "NeighborTransformer": "dssl.estimators.neighbors",
    "TransductiveSVC": "dssl.estimators.transductive", "suggest_labels": "dssl.estimators.suggest",
    "KernelKMeans": "dssl.estimators.kmeans", "clustering_scores": "dssl.selection.number_of_clusters",
    "MultiscaleKernelClassifier": "dssl.estimators.multiscale",
    "MultiscaleKernelRegressor": "dssl.estimators.multiscale",
    "load": "dssl.pipeline.fitted", "run": "dssl.pipeline.run",
    "plan": "dssl.pipeline.plan.plan", "RunResult": "dssl.pipeline.result",
}
__all__ = ["ClusterKernelFeatures", "ClusterKernelSVC", "Dataset", "Graph", "GraphKernelRidge",
           "GraphKernelRidgeRegressor", "GridSearch", "KNNGraph", "KernelKMeans", "LabeledKFold", "LandmarkParams",
           "LapKernelRidge", "LapRLSClassifier", "LapRLSRegressor", "LapSVC", "LapSVM", "LaplaceLearning",
           "LaplaceLearningRegressor", "Laplacian", "MultiscaleKernelClassifier", "MultiscaleKernelRegressor",
           "NeighborTransformer", "PoissonLearning", "RegularizerParams", "RunResult", "SemiSupervisedClassifier",
           "SemiSupervisedRegressor", "SolverParams", "SpectrumParams", "StochasticParams", "SystemParams",
           "TransductiveSVC", "TransferParams", "amplified_resistance_kernel", "clustering_scores",
           "effective_resistances", "graph_spectrum", "load", "neighbors", "open_dataset", "plan", "run", "solve",
           "suggest_labels", "weights"]

if TYPE_CHECKING:
    from .data.dataset import Dataset
    from .data.ingest import open_dataset
    from .estimators.automatic import SemiSupervisedClassifier, SemiSupervisedRegressor
    from .estimators.cluster import ClusterKernelFeatures, ClusterKernelSVC
    from .estimators.deformed import LapKernelRidge, LapSVC
    from .estimators.graph_kernel_ridge import GraphKernelRidge, GraphKernelRidgeRegressor
    from .estimators.grid_search import GridSearch
    from .estimators.kmeans import KernelKMeans
    from .estimators.laplace_learning import LaplaceLearning, LaplaceLearningRegressor
    from .estimators.laprls import LapRLSClassifier
    from .estimators.laprls_regressor import LapRLSRegressor
    from .estimators.lapsvm import LapSVM
    from .estimators.multiscale import MultiscaleKernelClassifier, MultiscaleKernelRegressor
    from .estimators.neighbors import NeighborTransformer
    from .estimators.poisson_learning import PoissonLearning
    from .estimators.suggest import suggest_labels
    from .estimators.transductive import TransductiveSVC
    from .graph.graph import Graph
    from .graph.knn_graph import KNNGraph
    from .graph.laplacian import Laplacian
    from .graph.regularizer import RegularizerParams
    from .graph.spectrum import SpectrumParams, graph_spectrum
    from .graph.weights.build import weights
    from .kernels.landmarks import LandmarkParams
    from .kernels.resistance import amplified_resistance_kernel, effective_resistances
    from .kernels.stochastic import StochasticParams
    from .kernels.transfer import TransferParams
    from .knn.search import neighbors
    from .learners.laprls.params import SystemParams
    from .pipeline.fitted import load
    from .pipeline.plan.plan import plan
    from .pipeline.result import RunResult
    from .pipeline.run import run
    from .selection.folds import LabeledKFold
    from .selection.number_of_clusters import clustering_scores
    from .solvers.solve import solve
    from .solvers.solver_params import SolverParams


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module 'dssl' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_PUBLIC[name]), name)
