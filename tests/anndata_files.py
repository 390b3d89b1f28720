"""AnnData files for tests, in the layout that the documentation of anndata prints, without the package."""

import warnings

import h5py
import numpy as np
import pandas as pd
import zarr
from scipy import sparse

ROOT = {"encoding-type": "anndata", "encoding-version": "0.1.0"}


def write_anndata(path, X, obs, *, names=None, genes=None, layers=None, obsm=None, obsp=None, root=ROOT):
    """Write cells X (n, d) with the columns of a DataFrame `obs` to an .h5ad file or a .zarr folder; return the path.

    layers, obsm, obsp : matrices by name; sparse ones are stored as CSR or CSC, as they are.
    """
    names = [f"cell{i}" for i in range(X.shape[0])] if names is None else names
    genes = [f"gene{j}" for j in range(X.shape[1])] if genes is None else genes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr, about text
        file = h5py.File(path, "w") if path.suffix == ".h5ad" else zarr.open_group(str(path), mode="w")
        file.attrs.update(root)
        _put_matrix(file, "X", X)
        _put_table(file, "obs", names, obs)
        _put_table(file, "var", genes, pd.DataFrame())
        for group, matrices in (("layers", layers), ("obsm", obsm), ("obsp", obsp)):
            made = _group(file, group, "dict")
            for name, matrix in (matrices or {}).items():
                _put_matrix(made, name, matrix)
        if path.suffix == ".h5ad":
            file.close()
    return path


def _group(parent, name, encoding, **attributes):
    group = parent.create_group(name)
    group.attrs.update({"encoding-type": encoding, "encoding-version": "0.1.0", **attributes})
    return group


def _put(parent, name, values, encoding="array"):
    values = np.asarray(values)
    if values.dtype.kind in "OUT":
        encoding, values = "string-array", values.astype(str).astype(object if isinstance(parent, h5py.Group) else "T")
    if isinstance(parent, h5py.Group):
        array = parent.create_dataset(name, data=values, chunks=None if len(values) < 20 else (10, *values.shape[1:]))
    else:
        array = parent.create_array(name, data=values)
    array.attrs.update({"encoding-type": encoding, "encoding-version": "0.2.0"})


def _put_matrix(parent, name, matrix):
    if sparse.issparse(matrix):
        group = _group(parent, name, f"{matrix.format}_matrix", shape=list(matrix.shape))
        for part in ("data", "indices", "indptr"):
            _put(group, part, getattr(matrix, part))
    else:
        _put(parent, name, matrix)


def _put_table(parent, name, index, frame):
    group = _group(parent, name, "dataframe", _index="_index")
    # An empty list would become an attribute of floats.
    group.attrs["column-order"] = np.array(list(frame), h5py.string_dtype()) if isinstance(group, h5py.Group) else \
        list(frame)
    _put(group, "_index", np.array(index, object))
    for column, values in frame.items():
        if isinstance(values.dtype, pd.CategoricalDtype):
            cells = _group(group, column, "categorical", ordered=False)
            _put(cells, "categories", values.cat.categories)
            _put(cells, "codes", values.cat.codes)
        elif isinstance(values.dtype, (pd.Int64Dtype, pd.BooleanDtype)):
            boolean = isinstance(values.dtype, pd.BooleanDtype)
            cells = _group(group, column, "nullable-boolean" if boolean else "nullable-integer")
            _put(cells, "values", values.fillna(False if boolean else 0).to_numpy(bool if boolean else int))
            _put(cells, "mask", values.isna().to_numpy())
        else:
            _put(group, column, values.to_numpy())
