"""Predict with an exported model of dssl. Needs Python 3.9 and NumPy, and nothing of dssl.

    import sys
    sys.path.insert(0, "model.dssl.zip")      # the file carries this module
    import dssl_model
    model = dssl_model.load("model.dssl.zip")
    model.predict(X), model.predict_proba(X)

X is an array (n, d), or a table: one of pandas or polars, a dict of columns, or a list of dicts such as those of
`csv.DictReader`. Where text and missing cells of the training table became numbers, they do here.
"""

import io
import json
import re
import warnings
import zipfile
from decimal import Decimal
from itertools import combinations

import numpy as np

FORMAT = 3
NUMBERS = (int, float, Decimal, np.number, np.bool_)
BLOCK_NUMBERS = 1 << 24  # of a block of similarities


def load(path):
    """Return the model in a file that `export` wrote; raise ValueError if it is of another format."""
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read("model.json"))
        if described["format"] != FORMAT:
            raise ValueError(f"{path} has format {described['format']}, this module reads {FORMAT}: take the one in it")
        stored = {name[:-4]: np.load(io.BytesIO(archive.read(name))) for name in archive.namelist()
                  if name.endswith(".npy")}
    return Model(described, {name: stored[same] for name, same in described["arrays"].items()})


class Model:
    """A fitted model.

    classes (n_classes,) : the classes, or the tags (several labels a point); None of quantities. feature_names : of the
    columns of X, None if they have none. n_features : the columns of X.
    """

    def __init__(self, described, arrays):
        self.described, self.arrays = described, arrays
        self.cells, self.feature_names = described["cells"], described["feature_names"]
        self.n_features = len(self.cells["columns"]) if self.cells else described["n_features"]
        self.read_as = self.cells or _plain_cells(self.feature_names, self.n_features)
        self.classes = None if described["classes"] is None else np.array(
            described["classes"], dtype=described["classes_dtype"])
        self.n_classes = 0 if self.classes is None else len(self.classes)

    def predict(self, X):
        """Return the classes or quantities (n,) or (n, c) of rows X (n, d) before scaling.

        A point of which the model knows nothing has the quantity of a mean point, and no class: NaN among floats, -1
        among integers, None among others. Of tags 1 and 0 in a column each (n, n_tags), -1 where nothing is known.
        """
        values, unsupported = self.values(X)
        if self.described["coding"] == "tags":
            return np.where(np.isnan(values), -1, values > 0).astype(np.int64)
        unsupported &= self.described["rejects"]
        if self.classes is None:
            return values[:, 0] if values.shape[1] == 1 else values
        labels = self.classes[np.argmax(_scores(values, self.described["coding"], self.n_classes), axis=1)]
        if unsupported.any():
            if labels.dtype.kind != "f" and (labels.dtype.kind != "i" or -1 in self.classes):  # no marker of their own
                labels = labels.astype(object)
            labels[unsupported] = {"O": None, "f": np.nan}.get(labels.dtype.kind, -1)
        return labels

    def predict_proba(self, X):
        """Return the probabilities (n, n_classes) of the classes, or of each tag, NaN where a point gets none.

        Raises ValueError: the model has none.
        """
        calibration = self.described["calibration"]
        if calibration is None:
            raise ValueError("the model has no probabilities")
        values, unsupported = self.values(X)
        if self.described["coding"] == "tags":
            P = np.empty(values.shape)
            for column, tag in enumerate(calibration["tags"]):
                margins, share = values[:, [column, column]] * [-1, 1], calibration["shares"][column]
                if tag:
                    P[:, column] = _probabilities(margins, tag)[:, 1]
                else:
                    P[:, column] = np.nan if share is None else share
            return P
        P = _probabilities(_margins(values, self.described["coding"], self.n_classes), calibration)
        P[unsupported & self.described["rejects"]] = np.nan
        return P

    def values(self, X):
        """Return the values (n, c) of rows X (n, d), and whether each row is unsupported, (n,) bool.

        Columns of a table that have names are taken by the names of the fit, and others are ignored. Raises ValueError:
        X lacks a column, or a cell is none of what the training table had in that column.
        """
        X = self._numbers(X)
        if not np.isfinite(X).all():
            row, at = np.argwhere(~np.isfinite(X))[0].tolist()
            name = [column["name"] for column in self.read_as["columns"] for _ in column.get("levels", [0])][at]
            raise ValueError(f"X holds {X[row, at]} in row {row}, column {at if name is None else name!r}: drop rows "
                             "with NaN or infinite values, or fill the values")
        root = self.described["model"]
        height = max(1, BLOCK_NUMBERS // max(1, *(len(array) for array in self.arrays.values())))
        starts = range(0, max(len(X), 1), height)
        blocks = [self._values(root, self._scaled(X[start:start + height]), {}) for start in starts]
        values, unsupported = (np.concatenate([block[part] for block in blocks]) for part in (0, 1))
        return values, unsupported

    def _numbers(self, X):
        """Return the rows of an array or a table as numbers (n, d) before scaling."""
        names = self.feature_names
        if isinstance(X, (list, tuple)) and len(X) == 0:
            return np.empty((0, self.described["n_features"]))
        if isinstance(X, (list, tuple)) and isinstance(X[0], dict):
            X = {name: [row.get(name) for row in X] for name in dict.fromkeys(name for row in X for name in row)}
        if isinstance(X, dict) or (hasattr(X, "columns") and names is not None):
            if names is None:
                raise ValueError("the columns of the fit have no names: pass rows with the cells in their order")
            given = X if isinstance(X, dict) else X.columns
            stored = [_stored_as(name, given) for name in names]
            lacking = [at for at, _ in stored if at not in given]
            if lacking:
                raise ValueError(f"X lacks the columns {lacking[:10]}")
            parts = {at: () if element is None else names for at, element in stored}  # a column is read once
            read = {at: _column(X[at], at, of, self.read_as["missing"]) for at, of in parts.items()}
            columns = [read[at] if element is None else read[at][:, element] for at, element in stored]
            if len({*map(len, columns)}) > 1:
                raise ValueError("the columns of X differ in length: pass a cell of each column for every row")
            if self.cells is None and all(column.dtype.kind in "biuf" for column in columns):
                return np.stack(columns, axis=1)
        else:
            rows = np.asarray(X)
            if rows.dtype.kind not in "biuf":  # cells of several types would all become text
                rows = np.asarray(X, object)
            if rows.ndim != 2 or rows.shape[1] != self.n_features:
                raise ValueError(f"X has shape {rows.shape}, the model was fitted on {self.n_features} features")
            if self.cells is None and rows.dtype.kind in "biuf":
                return rows
            columns = list(rows.T)
        columns = [_numbers_of(columns[j], column, self.read_as) for j, column in enumerate(self.read_as["columns"])]
        return np.concatenate(columns, axis=1).astype(self.read_as["dtype"])

    def _scaled(self, X):
        scaling, arrays = self.described["scaling"], self.arrays
        dtype = np.result_type(X.dtype, np.float32)
        lower, upper = arrays["scaling.lower"], arrays["scaling.upper"]
        if scaling == "unit_norm":
            return _unit(X.astype(np.float64)).astype(dtype)
        if scaling == "none":
            return np.clip(X, lower, upper).astype(dtype) if len(lower) else X.astype(dtype)
        Z = X - arrays["scaling.shift"]
        if len(lower):
            Z = np.clip(Z, lower - arrays["scaling.shift"], upper - arrays["scaling.shift"])
        return (Z * arrays["scaling.factor"]).astype(dtype)

    # Values of a node of the model

    def _values(self, node, X, searches):
        """Return values and whether rows are unsupported; searches : of X, by points of a graph and k, are added to."""
        return getattr(self, f"_{node['type']}")(node, X, lambda name: self.arrays[f"{node['at']}.{name}"], searches)

    def _tags(self, node, X, array, searches):
        values = np.tile(array("constants"), (len(X), 1))
        for tag in node["models"]:
            of_tag, unsupported = self._values(tag, X, searches)
            values[:, tag["column"]] = _margins(of_tag, tag["coding"], 2)[:, 1]
            values[unsupported & tag["rejects"], tag["column"]] = np.nan
        return values, np.isnan(values[:, [tag["column"] for tag in node["models"]]]).all(axis=1)

    def _blend(self, node, X, array, searches):
        values, unsupported = self._values(node["graph"], X, searches)
        values = values + self._values(node["kernels"], X, searches)[0]
        if unsupported.any():
            values[unsupported] = self._values(node["supervised"], X[unsupported], {})[0]
        return values, np.zeros(len(X), bool)

    def _graph(self, node, X, array, searches):
        points, k = array("points"), node["k"]
        if (id(points), k) not in searches:  # models of tags on one graph search it once
            searches[id(points), k] = _nearest(X, points, k, node["metric"])
        distances, ids = searches[id(points), k]
        scales, reachable, vertex_values = array("scales"), array("reachable"), array("values")
        logs = _log_weights(node["rule"], node["scale"], distances, distances[:, -1:], scales[ids])
        logs[~reachable[ids]] = -np.inf
        unsupported = np.isneginf(logs).all(axis=1)
        weights = np.exp(logs - np.where(unsupported, 0.0, logs.max(axis=1))[:, None])
        weights /= np.where(unsupported, 1.0, weights.sum(axis=1))[:, None]
        values = np.einsum("qk,qkc->qc", weights, vertex_values[ids])
        vertices = np.flatnonzero(distances[:, 0] == 0)  # rows that equal a vertex
        equal = (distances[vertices] == 0) & reachable[ids[vertices]]
        unsupported[vertices] = ~equal.any(axis=1)
        shares = equal / np.maximum(equal.sum(axis=1, keepdims=True), 1)
        values[vertices] = np.einsum("qk,qkc->qc", shares, vertex_values[ids[vertices]])
        values[unsupported] = 0.0 if self.classes is not None else vertex_values[reachable].mean(axis=0)
        return values, unsupported

    def _kernel(self, node, X, array, searches):
        block = _kernel_block(node["kernel"], X, array("points"))
        return block @ array("coef") + array("intercept"), np.zeros(len(X), bool)

    def _kernel_sum(self, node, X, array, searches):
        values = np.tile(array("offset"), (len(X), 1))
        squared = _squared_distances(X, array("points"))
        for number, bandwidth in enumerate(node["bandwidths"]):
            values += np.exp(-0.5 / bandwidth**2 * squared) @ array("coef")[number]
        return values, np.zeros(len(X), bool)


def _plain_cells(names, n_columns):
    """Return the description of columns of numbers without missing cells."""
    columns = [{"name": name, "kind": "number", "fill": None} for name in names or range(n_columns)]
    number = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    return {"columns": columns, "dtype": "float64", "missing": ["", "nan", "<NA>"], "gaps": [], "missing_numbers": [],
            "decimal": ".", "number": number, "before_unit": number, "marks": "\\s", "bound": "^$"}


def _stored_as(name, given):
    """Return the column of a table that holds a feature, and None or which element of its cells, as `name[0]` says."""
    element = re.fullmatch(r"(.*)\[(\d+)\]", name, re.DOTALL) if name not in given else None
    return (element[1], int(element[2])) if element and element[1] in given else (name, None)


def _column(given, name, names, missing):
    """Return the cells of a column (n,); or their elements (n, count) where `names` say that it has some (10x20)."""
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise ValueError(f"X[{name!r}] is a single cell: pass a list of rows, [row], or a dict of columns")
    cells = np.asarray(given) if hasattr(given, "dtype") else np.empty(0, object)
    if cells.dtype.kind not in "biuf":  # one after the other: numbers among texts would become text, and lists a matrix
        cells = np.empty(len(given), object)
        for row, cell in enumerate(given):
            cells[row] = cell
    count = sum(_stored_as(other, {name})[1] is not None for other in names)
    if not count:
        return cells
    elements = np.empty((len(cells), count), object)
    for row, cell in enumerate(cells):
        parts = _sides(cell) if isinstance(cell, str) else cell
        if np.ndim(parts) and len(parts) == count:
            elements[row] = parts
        elif np.ndim(cell) or _text(cell) not in missing:
            raise ValueError(f"column {name!r} holds {cell!r} in row {row}, where training had numbers, {count} a cell")
    return elements


def _numbers_of(column, described, cells):
    """Return the columns of numbers (n, c) of one column of cells: one, or one of 0 and 1 for each of its levels."""
    if described["kind"] == "category":
        return _levels_of(column, described, cells)
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
    else:
        numbers = np.array([_number(cell, row, described, cells) for row, cell in enumerate(column)], np.float64)
    is_missing = np.isnan(numbers) | np.isin(numbers, cells["missing_numbers"])
    return np.where(is_missing, np.array(described.get("fill"), np.float64), numbers)[:, None]  # NaN where it is None


def _levels_of(column, described, cells):
    levels = {_folded(level): at for at, level in enumerate(described["levels"]) if level is not None}
    gap = described["levels"].index(None) if None in described["levels"] else None
    Z, unseen = np.zeros((len(column), len(described["levels"]))), set()
    for row, cell in enumerate(column):
        text = _text(cell)
        mark = "." if isinstance(cell, NUMBERS) else cells["decimal"]
        whole = re.sub(rf"^([+-]?(?:[1-9]\d*|0))\{mark}0+$", r"\1", text)
        is_missing = text in cells["missing"] or whole in cells["missing"]
        at = gap if is_missing else levels.get(_folded(text), levels.get(_folded(whole)))
        if at is not None:
            Z[row, at] = 1
        elif is_missing and not cells["fills"]:
            raise ValueError(f"column {described['name']!r} has a missing cell in row {row}, and had none in training: "
                             "fill it, or drop the row")
        else:
            unseen.add(text)
    if unseen:
        warnings.warn(f"column {described['name']!r} holds texts that it did not in training, such as "
                      f"{sorted(unseen)[:5]}: they count as none of its {len(levels)} levels", stacklevel=2)
    return Z


def _number(cell, row, described, cells):
    if isinstance(cell, NUMBERS):
        return float(cell)
    text, unit = _plain(cell), described.get("unit") or ""
    if _text(cell) in cells["missing"] or text.lower() in cells["gaps"]:
        return np.nan
    if described["kind"] == "truth" and text.lower() in cells["truths"]:
        return cells["truths"][text.lower()]
    number, pattern = re.sub(cells["bound"], "", text), cells["number"]
    if unit and number.endswith(unit):
        number, pattern = number[:-len(unit)].rstrip(), cells["before_unit"]
    if number.lower() in ("true", "false"):
        return float(number.lower() == "true")
    if not re.fullmatch(pattern, number, re.ASCII):
        raise ValueError(f"column {described['name']!r} holds {text!r} in row {row}, where training had "
                         f"{'yes and no' if described['kind'] == 'truth' else 'numbers'}: pass a number")
    value = float(re.sub(cells["marks"], "", number).replace(cells["decimal"], "."))
    value = value / 100 if "%" in number else value
    return -value if number.startswith("(") else value


def _text(cell):
    return "" if cell is None else str(cell).strip()


def _plain(cell):
    """Return the text of a cell with the blanks, minus and micro signs of a keyboard."""
    return re.sub("[\u00a0\u2007\u2009\u202f]", " ", _text(cell)).translate({0x2212: "-", 0x3bc: "\u00b5"}).strip()


def _folded(text):
    return " ".join(text.split()).casefold()


def _sides(cell):
    """Return the sides of a size, each with the unit of the last one unless it has its own."""
    sides = re.split(r"\s?[xX×*]\s?", _plain(cell))
    unit = re.sub(r"^.*[\d\s]", "", sides[-1])
    return [side + unit if side[-1:].isdigit() else side for side in sides]


def _scores(values, coding, n_classes):
    if coding == "one_vs_one":
        lead, margins = _summed(np.where(values > 0, 1.0, -1.0), n_classes), _summed(values, n_classes)
        return (lead + n_classes - 1) / 2 + margins / (3 * (np.abs(margins) + 1))
    return np.hstack([-values, values]) if values.shape[1] == 1 != n_classes else values


def _margins(values, coding, n_classes):
    return _summed(values, n_classes) / n_classes if coding == "one_vs_one" else _scores(values, coding, n_classes)


def _summed(values, n_classes):
    margins = np.zeros((len(values), n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        margins[:, i] += values[:, column]
        margins[:, j] -= values[:, column]
    return margins


def _probabilities(margins, calibration):
    logs = calibration["slope"] * margins - np.array(calibration.get("decision", 0.0))
    logs = np.where(calibration["present"], logs, -np.inf)
    P = np.exp(logs - logs.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def _unit(X):
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0)


def _squared_distances(X, Z):
    center = Z.mean(axis=0, dtype=np.float64)
    X, Z = X - center, Z - center
    squared = -2 * (X @ Z.T)
    squared += (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1)
    return np.maximum(squared, 0.0)


def _nearest(X, Z, k, metric):
    """Return distances and ids (n, k) of the nearest points, ascending by (distance, id)."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    if metric == "cosine":
        if not X.any(axis=1).all():
            raise ValueError("X has zero rows, which have no direction: drop these rows")
        X, Z = _unit(X), _unit(Z)
    squared = _squared_distances(X, Z)
    some = min(k + 8, len(Z))  # are measured again, without rounding error
    ids = np.sort(np.argpartition(squared, some - 1, axis=1)[:, :some], axis=1)
    exact = np.stack([((X - Z[ids[:, column]]) ** 2).sum(axis=1) for column in range(some)], axis=1)
    order = np.argsort(exact, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(exact, order, axis=1)), np.take_along_axis(ids, order, axis=1)


def _log_weights(rule, scale, distances, scales, other_scales):
    if rule == "binary":
        return np.zeros(distances.shape)
    if rule == "heat":
        return -(distances**2) / (2 * scale**2)
    squared, product = distances**2, scales * other_scales
    product = np.where(product > 0, product, np.maximum(scales, other_scales) ** 2)
    return -np.divide(squared, scale**2 * product, out=np.zeros_like(squared), where=squared > 0)


def _kernel_block(kernel, X, Z):
    X, Z, name = X.astype(np.float64), Z.astype(np.float64), kernel["type"]
    if name == "rbf":
        return np.exp(-0.5 / kernel["bandwidth"] ** 2 * _squared_distances(X, Z))
    if name == "laplacian":
        return np.stack([np.exp(-np.abs(X - z).sum(axis=1) / kernel["bandwidth"]) for z in Z], axis=1)
    if name == "cosine":
        return _unit(X) @ _unit(Z).T
    products = X @ Z.T
    return products if name == "linear" else (kernel["scale"] * products + kernel["offset"]) ** kernel["degree"]
