"""A parameter has one name and one default, in a spec and in Python; exceptions are stated here."""

import inspect
from dataclasses import MISSING, fields

import pytest

import dssl
from dssl.base.errors import SpecError
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.weights.rules import WeightParams
from dssl.kernels.landmarks import LandmarkParams
from dssl.kernels.stochastic import StochasticParams
from dssl.kernels.transfer import TransferParams
from dssl.knn.search import NeighborParams
from dssl.learners.laprls.params import SystemParams
from dssl.methods.deformed.sections import SolverSection
from dssl.methods.graph.learner import TOLERANCE
from dssl.pipeline.load import SPECS, load_spec
from dssl.pipeline.validation import section_of, types_of
from dssl.solvers.solver_params import SolverParams

ESTIMATORS = {
    "automatic": ("SemiSupervisedClassifier", "SemiSupervisedRegressor"), "svm": ("LapSVC",),
    "ridge": ("LapKernelRidge",), "laprls": ("LapRLSClassifier", "LapRLSRegressor"), "lapsvm": ("LapSVM",),
    "graph": ("GraphKernelRidge", "GraphKernelRidgeRegressor", "LaplaceLearning", "LaplaceLearningRegressor",
              "PoissonLearning"),
    "cluster": ("ClusterKernelSVC",), "multiscale": ("MultiscaleKernelClassifier", "MultiscaleKernelRegressor"),
    "transductive": ("TransductiveSVC",), "clustering": ("KernelKMeans",), "kernel_clustering": ("KernelKMeans",)}
# Groups of an estimator whose fields are keys of `model` itself.
GROUPS = {"laprls": (SystemParams,), "lapsvm": (SystemParams,),
          "cluster": (TransferParams, StochasticParams, LandmarkParams)}
# Keys of `model` that no estimator has: the estimator itself is the kind, and the learner of `graph`; the width of a
# loss is a field of the loss; a LapSVM always has an intercept; and of classes, `ridge` is the LapSVC of squared loss.
NOT_IN_PYTHON = {*((kind, "kind") for kind in SPECS), ("graph", "learner"), ("lapsvm", "h"),
                 ("lapsvm", "fit_intercept"), ("ridge", "class_prior"), ("ridge", "class_weight")}
# Parameters of an estimator that stand in another section of a spec.
IN_SECTIONS = {
    "graph": "graph", "kernel": "kernel", "bandwidth": "kernel", "laplacian": "graph", "regularizer": "graph",
    "scale": "data", "unlabeled": "data", "memory_budget": "", "cv": "selection"}
IN_SECTIONS_OF_A_KIND = {
    ("svm", "tol"): "solver", ("ridge", "tol"): "solver", ("laprls", "random_state"): "model.landmarks",
    ("lapsvm", "random_state"): "model.landmarks"}
# Of the deformed kernel, which the kind clustering has; a pipeline always calibrates probabilities, and has the classes
# of soft labels and of class vectors in their sections.
NOT_IN_A_SPEC = {("kernel_clustering", "eta"), ("transductive", "probability"), ("automatic", "classes"),
                 ("graph", "classes")}
# Defaults that differ, since the group has a default of its own in Python, or one estimator a kind that a spec chooses.
OTHER_DEFAULTS = {
    # A section here, a number or a group there.
    ("laprls", "landmarks"), ("lapsvm", "landmarks"), ("transductive", "landmarks"),
    ("graph", "tol"),  # null here: 0.1 of ridge, 1e-5 of the others, as there
    ("graph", "power"), ("graph", "by_degree"),  # lists here, a tuple or one value there
    ("clustering", "n_clusters"), ("kernel_clustering", "n_clusters"),  # required here, 8 there, as in scikit-learn
    ("kernel_clustering", "feature_map")}  # graph there, which is the kind clustering here
REQUIRED = object()


def arguments_of(name: str) -> dict[str, object]:
    """Return the parameters of an estimator with their defaults."""
    return {key: REQUIRED if parameter.default is parameter.empty else parameter.default
            for key, parameter in inspect.signature(getattr(dssl, name).__init__).parameters.items() if key != "self"}


def arguments_of_fit(name: str) -> set[str]:
    return set(inspect.signature(getattr(dssl, name).fit).parameters)


def keys_of(group: type) -> dict[str, object]:
    """Return the keys of a section, or the fields of a group, with their defaults."""
    return {field.name: REQUIRED if field.default is MISSING and field.default_factory is MISSING else
            field.default_factory() if field.default is MISSING else field.default for field in fields(group)}


def section(kind: str, *path: str) -> type:
    """Return the section of a kind at a path."""
    found = SPECS[kind].spec
    for name in path:
        found = section_of(types_of(found)[name])
    return found


def test_every_kind_has_its_estimators_here():
    assert set(ESTIMATORS) == set(SPECS)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in ESTIMATORS.items() for name in names])
def test_a_parameter_of_an_estimator_is_a_key_of_its_kind_with_the_same_default(kind, name):
    keys, arguments = keys_of(section(kind, "model")), arguments_of(name)
    for key, default in arguments.items():
        if key in IN_SECTIONS:
            assert not IN_SECTIONS[key] or IN_SECTIONS[key] in types_of(SPECS[kind].spec) or key in (
                "graph", "regularizer"), key
        elif (kind, key) in IN_SECTIONS_OF_A_KIND:
            place = section(kind, *IN_SECTIONS_OF_A_KIND[kind, key].split("."))
            assert keys_of(place)[key] == default, key
        elif (kind, key) not in NOT_IN_A_SPEC:
            assert key in keys, f"{name}({key}=...) is no key of model, where model.kind is {kind}: {sorted(keys)}"
            assert (kind, key) in OTHER_DEFAULTS or keys[key] == default, key


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_key_of_a_kind_is_a_parameter_of_one_of_its_estimators_or_of_a_group_of_it(kind):
    arguments = {key for name in ESTIMATORS[kind] for key in arguments_of(name).keys() | arguments_of_fit(name)}
    groups = {key: value for group in GROUPS.get(kind, ()) for key, value in keys_of(group).items()}
    for key, default in keys_of(section(kind, "model")).items():
        named = key in arguments | groups.keys() or (kind, key) in NOT_IN_PYTHON
        assert named, f"model.{key} of {kind} has another name in Python"
        if key in groups and key not in arguments:
            assert default == groups[key], key


def test_the_keys_of_a_graph_are_the_fields_of_its_parameters():
    ours = keys_of(KNNGraph)
    for kind in SPECS:
        if "graph" not in types_of(SPECS[kind].spec):
            continue
        keys = keys_of(section(kind, "graph"))
        regularizer = keys_of(RegularizerParams)
        for key in keys.keys() - {"given", "width"}:  # the width is another where a kernel is deformed
            assert keys[key] == (ours if key in ours else regularizer)[key], (kind, key)
        assert ours.keys() <= keys.keys()
    for group in (NeighborParams, WeightParams):
        assert keys_of(group).items() <= ours.items()


def test_the_keys_of_a_solver_are_the_fields_of_their_parameters():
    solver = keys_of(SolverParams)
    assert all(solver[key] == default for key, default in keys_of(SolverSection).items() if key != "form")
    assert arguments_of("LaplaceLearning")["tol"] == TOLERANCE


@pytest.mark.parametrize(("given", "message"), [
    ({"data": {"source": "digits", "seed": 1}}, "data.seed: there is no such key here; did you mean data.random_state"),
    ({"labels": {"per_class": 2, "seed": 1}}, "did you mean labels.random_state?"),
    ({"graph": {"seed": 1}}, "did you mean graph.random_state?"),
    ({"selection": {"seed": 1}}, "did you mean selection.random_state?"),
    ({"selection": {"search": "random", "samples": 5}}, "did you mean selection.n_candidates?"),
    ({"selection": {"cross_validation": "refit"}}, "did you mean selection.held_out?"),
    ({"model": {"kind": "svm", "n_subsample": 50}}, "did you mean model.n_landmarks?"),
    ({"model": {"kind": "svm", "seed": 1}}, "did you mean model.random_state?"),
    ({"model": {"kind": "laprls", "landmarks": {"count": 50}}}, "did you mean model.landmarks.n_landmarks?"),
    ({"model": {"kind": "laprls", "landmarks": {"seed": 1}}}, "did you mean model.landmarks.random_state?"),
    ({"model": {"kind": "multiscale", "eigenpairs": 50}}, "did you mean model.n_eigenpairs?"),
    ({"model": {"kind": "multiscale", "n_carriers": 50}}, "did you mean model.n_landmarks?"),
    ({"model": {"kind": "cluster", "features": 50}}, "did you mean model.approximation.n_features?"),
    ({"model": {"kind": "clustering", "n_clusters": 3, "starts": 5}}, "did you mean model.n_init?"),
    ({"model": {"kind": "clustering", "n_clusters": 3, "most": 5}}, "did you mean model.max_clusters?"),
    ({"model": {"kind": "clustering", "n_clusters": 3, "landmarks": 50}}, "did you mean model.n_landmarks?"),
    ({"model": {"kind": "clustering", "clusters": 3}}, "did you mean model.n_clusters?"),
    ({"selection": {"folds": 3}}, "did you mean selection.cv?"), ({"solver": {"tolerance": 1e-6}}, "solver.tol?"),
    ({"solver": {"max_iterations": 9}}, "did you mean solver.max_iter?"),
])
def test_an_older_name_is_refused_with_the_one_of_today(given, message):
    with pytest.raises(SpecError) as refused:
        load_spec({"name": "older", "data": {"source": "digits"}, "model": {"kind": "svm"},
                   **({"labels": {"per_class": 2}} if "clustering" not in str(given) else {}), **given})
    assert message in str(refused.value)
