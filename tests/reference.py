"""Each method as its paper prints it: dense and slow, the text that the tests compare with.

Nothing here comes from dssl. Points are rows of X; `labeled` is a boolean mask and `landmarks` an array of row numbers.
"""

import numpy as np
from scipy.optimize import linprog, minimize

# Kernels


def squared_distances(X, Z):
    """Return |x_i - z_j|^2 by differences, shape (len(X), len(Z))."""
    return ((X[:, None, :] - Z[None, :, :]) ** 2).sum(2)


def rbf(X, Z, bandwidth):
    """Return exp(-|x - z|^2 / (2 bandwidth^2))."""
    return np.exp(-squared_distances(X, Z) / (2 * bandwidth**2))


def laplacian_kernel(X, Z, bandwidth):
    """Return exp(-|x - z|_1 / bandwidth)."""
    return np.exp(-np.abs(X[:, None, :] - Z[None, :, :]).sum(2) / bandwidth)


def polynomial(X, Z, degree, scale, offset):
    """Return (scale x'z + offset)^degree."""
    return (scale * X @ Z.T + offset) ** degree


def median_distance(X, order=2):
    """Return the median of the positive distances between all pairs of rows, in the norm of this order."""
    distances = [np.linalg.norm(X[i] - X[j], order) for i in range(len(X)) for j in range(i)]
    return np.median([distance for distance in distances if distance > 0])


# Graphs


def knn(X, k):
    """Return (ids, distances) of the k nearest rows of each row, itself included; ties keep the order of ids."""
    distances = np.sqrt(squared_distances(X, X))
    ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(distances, ids, axis=1)


def knn_weights(X, k, bandwidth=None):
    """Return W of the k-nearest-neighbor graph joined in either direction, without loops.

    Weights are 1, or exp(-|x - z|^2 / (2 bandwidth^2)) with a bandwidth.
    """
    joined = np.zeros((len(X), len(X)), bool)
    for i, neighbors in enumerate(knn(X, k)[0]):
        joined[i, neighbors] = joined[neighbors, i] = True
    np.fill_diagonal(joined, False)
    return joined * (1.0 if bandwidth is None else rbf(X, X, bandwidth))


def laplacian(W):
    """Return L = D - W."""
    return np.diag(W.sum(1)) - W


def normalized_laplacian(W):
    """Return L_norm = I - D^-1/2 W D^-1/2; every vertex has an edge."""
    scale = 1 / np.sqrt(W.sum(1))
    return np.eye(len(W)) - scale[:, None] * W * scale[None, :]


def regularizer(L, power=1, ridge=0.0):
    """Return Q = (L + ridge I)^power."""
    return np.linalg.matrix_power(L + ridge * np.eye(len(L)), power)


def pseudo_inverse(Q, smallest=1e-10):
    """Return Q^+ of a symmetric matrix; eigenvalues below `smallest` times the largest count as zero."""
    return np.linalg.pinv(Q, rcond=smallest, hermitian=True)


# Data-dependent kernels: Lever, Diethe, Shawe-Taylor 2012


def deformed(K, eta, Q, k_x, k_z, K_xz):
    """Return eq. 4 (and eq. 6, for landmarks): K(x, z) - eta k_x' (I + eta Q K)^-1 Q k_z.

    K, Q have shape (m, m); k_x has shape (m, len(X)), k_z (m, len(Z)), K_xz (len(X), len(Z)).
    """
    return K_xz - eta * k_x.T @ np.linalg.inv(np.eye(len(K)) + eta * Q @ K) @ Q @ k_z


def deformed_gram(K, M):
    """Return K - K (I + M K)^-1 M K, the deformed Gram matrix on the points that the regularizer M measures."""
    return deformed(K, 1.0, M, K, K, K)


def landmark_regularizer(Q, landmarks):
    """Return Q_hat = (Q^+ restricted to the landmarks)^+ (eq. 7)."""
    return pseudo_inverse(pseudo_inverse(Q)[np.ix_(landmarks, landmarks)])


def minimum_norm_interpolant(Q, landmarks, values):
    """Return f with f_S = values and f'Qf smallest (eq. 9): the other entries are -Q_tt^+ Q_ts values."""
    rest = np.setdiff1d(np.arange(len(Q)), landmarks)
    f = np.zeros(len(Q))
    f[landmarks] = values
    f[rest] = -pseudo_inverse(Q[np.ix_(rest, rest)]) @ Q[np.ix_(rest, landmarks)] @ values
    return f


def minimum_norm_interpolant_in_image(Q, landmarks, values):
    """Return f = Q a with f_S = values and f'Qf smallest: the interpolant in the space of Theorem 3.1."""
    covariance = pseudo_inverse(Q)
    return covariance[:, landmarks] @ pseudo_inverse(covariance[np.ix_(landmarks, landmarks)]) @ values


# Cluster kernels: Hou, Zhang, Zhou 2017


def affinity(K):
    """Return L = D^-1/2 K D^-1/2."""
    scale = 1 / np.sqrt(K.sum(1))
    return scale[:, None] * K * scale[None, :]


def cluster_kernel(K, phi):
    """D~^1/2 U phi(Sigma) U' D~^1/2 of the affinity U Sigma U', of unit diagonal; phi of descending eigenvalues."""
    values, U = np.linalg.eigh(affinity(K))
    values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
    L = (U * phi(values)) @ U.T
    return L / np.sqrt(np.outer(np.diagonal(L), np.diagonal(L)))


def printed_nystrom_samples(C, W, degrees, k, phi):
    """Algorithm 2 of the storage fit paper as it is printed: the eigenpairs of K, whose phi is taken, then D^-1/2 U."""
    n, s = C.shape
    values, U = np.linalg.eigh(W)
    values, U = values[::-1][:k], U[:, ::-1][:, :k]
    F = np.sqrt(s / n) * C @ U / values / np.sqrt(degrees)[:, None] * np.sqrt(phi(n / s * values))
    return F / np.linalg.norm(F, axis=1, keepdims=True)


def thresholded(M, threshold, rank=None):
    """Return sum_i max(sigma_i - threshold, 0) u_i u_i' (eq. 7), of the leading `rank` eigenvectors of M."""
    values, vectors = np.linalg.eigh(M)
    kept = slice(-rank if rank and rank < len(M) else None, None)
    return (vectors[:, kept] * np.maximum(values[kept] - threshold, 0)) @ vectors[:, kept].T


def stochastic_affinity(draws, threshold, rank=None):
    """Return Z after the steps of Algorithm 1 on draws L_1, L_2, ... of the affinity, with no step above 1."""
    Z = np.zeros_like(draws[0])
    for t, L_t in enumerate(draws, 1):
        eta = min(1, 2 / t)
        Z = thresholded((1 - eta) * Z + eta * L_t, eta * threshold, rank)
    return Z


# Learners


def multiscale_kernel(X, Z, eps_0, q, threshold):
    """Mhaskar, Pereverzyev, Semenov, Semenova 2018: (K_n of eq. 7 between X and Z, the scale of each index from 2 on).

    Eigenfunctions of the graph Laplacians of X, of unit length there, are extended to Z by eq. 5 as it is printed.
    """
    n, scales = len(X), []
    while len(scales) < 2 or scales[-1][1][1] >= threshold:
        eps = eps_0 * q ** len(scales)
        W = np.exp(-squared_distances(X, X) / (4 * eps))
        scales.append((eps, *np.linalg.eigh((np.diag(W.sum(1)) - W) / n)))
    K, chosen = np.ones((n, len(Z))), []
    for k in range(1, n):
        values = np.array([scale[1][k] for scale in scales])
        j = 1 + int(np.abs(np.diff(values)).argmin())
        eps, phi = scales[j][0], scales[j][2][:, k]
        W = np.exp(-squared_distances(Z, X) / (4 * eps))
        extended = W @ phi / (W.sum(1) - n * values[j])
        K += np.outer(phi, extended) / (n * values[j])
        chosen.append(j)
    return K, np.array(chosen)


def ridge(K, y, labeled, ambient):
    """Return f on all points minimizing (1/l) sum (y - f)^2 + ambient |f|^2_K."""
    alpha = np.linalg.solve(K[np.ix_(labeled, labeled)] + labeled.sum() * ambient * np.eye(labeled.sum()), y[labeled])
    return K[:, labeled] @ alpha


def laprls(K, L, y, labeled, ambient, manifold):
    """Return f on all n points minimizing (1/l) sum (y - f)^2 + ambient |f|^2_K + manifold / n^2 f'Lf (Belkin 2006)."""
    n, n_labeled = len(K), labeled.sum()
    J = np.diag(labeled.astype(float))
    A = J @ K + ambient * n_labeled * np.eye(n) + manifold * n_labeled / n**2 * L @ K
    return K @ np.linalg.solve(A, J @ np.where(labeled, y, 0.0))


def manifold_regularization(K, G, rows, y, p, loss, gamma_A, intercept=False):
    """Return (g, b) minimizing sum p_i loss(y_i, g(rows_i) + b) + gamma_A |g|^2_K + g'G g over g (n,), and b or b = 0.

    Newton's method, each step halved until the objective falls. `loss` has `value`, `gradient` and `curvature` of f and
    y, and `steps`, losses that lead to it; K has an inverse.
    """
    n = len(K)
    penalty, S = np.zeros((n + 1, n + 1)), np.zeros((len(rows), n + 1))
    penalty[:n, :n] = gamma_A * np.linalg.inv(K) + G
    S[np.arange(len(rows)), rows] = 1
    S[:, n] = float(intercept)
    penalty[n, n] = 0.0 if intercept else 1.0
    x = np.zeros(n + 1)
    for step_loss in loss.steps:
        def objective(at, of=step_loss):
            return p @ of.value(S @ at, y) + at @ penalty @ at

        for _ in range(200):
            gradient = S.T @ (p * step_loss.gradient(S @ x, y)) + 2 * penalty @ x
            hessian = (S.T * (p * step_loss.curvature(S @ x, y))) @ S + 2 * penalty
            hessian[n, n] += 1e-12  # no label may have curvature on the way
            step, share = np.linalg.solve(hessian, gradient), 1.0
            while objective(x - share * step) > objective(x) + 1e-14:  # what rounding may add
                share /= 2
            x = x - share * step
            if np.abs(step).max() < 1e-9 * (1 + np.abs(x).max()):  # the next would be its square
                break
    return x[:n], x[n]


# Nystrom LapRLS: Li, Liu, Yin, Wang 2019. Targets y have shape (n, t) or (n,) with 0 where unlabeled. Squared errors
# are summed here and averaged above: with l labels, lambda_A = l * ambient and lambda_I = l * manifold / n^2.


def rls(K_mm, y, lam):
    """Return alpha of plain regularized least squares on the labeled points: (K_mm + lam I)^-1 y."""
    return np.linalg.solve(K_mm + lam * np.eye(len(K_mm)), y)


def laprls_coef(K, L, y, labeled, lambda_A, lambda_I):
    """Return alpha of eq. (3), one coefficient a point: (J K + lambda_A I + lambda_I L K)^-1 y."""
    J = np.diag(labeled.astype(float))
    return np.linalg.solve(J @ K + lambda_A * np.eye(len(K)) + lambda_I * L @ K, y)


def nystrom_matrix(K_ns, K_ss, L, labeled, lambda_A, lambda_I):
    """Return H of eq. (4): K_ms' K_ms + lambda_A K_ss + lambda_I K_ns' L K_ns."""
    K_ms = K_ns[labeled]
    return K_ms.T @ K_ms + lambda_A * K_ss + lambda_I * K_ns.T @ L @ K_ns


def nystrom_laprls(K_ns, K_ss, L, y, labeled, lambda_A, lambda_I, smallest=1e-13):
    """Return alpha of eq. (4), one coefficient a landmark, by the pseudo-inverse: H^+ K_ms' y."""
    H = nystrom_matrix(K_ns, K_ss, L, labeled, lambda_A, lambda_I)
    return pseudo_inverse(H, smallest) @ K_ns[labeled].T @ y[labeled]


def preconditioner_5(K_ms, K_ss, L_ss, n, lambda_A, lambda_I):
    """Return P of eq. (5), for m <= sqrt(n); L_ss are the rows and columns of L at the landmarks."""
    return K_ms.T @ K_ms + lambda_A * K_ss + lambda_I * (n / len(K_ss)) ** 2 * K_ss @ L_ss @ K_ss


def preconditioner_6(m, K_ss, L_ss, n, lambda_A, lambda_I):
    """Return P of eq. (6), for m > sqrt(n)."""
    s = len(K_ss)
    return m / s * K_ss.T @ K_ss + lambda_A * K_ss + lambda_I * (n / s) ** 2 * K_ss @ L_ss @ K_ss


def leverage_scores(K, mu):
    """Return the ridge leverage scores, the diagonal of K (K + mu I)^-1 (Alaoui, Mahoney 2015)."""
    return np.diagonal(K @ np.linalg.inv(K + mu * np.eye(len(K))))


def svm(K, y, C):
    """Return (coef, bias) of f(x) = sum_i coef_i K(x_i, x) + bias, from the dual of the hinge loss; y in {-1, +1}.

    The bias is the mean over points whose dual variable lies strictly between 0 and C.
    """
    H = y[:, None] * K * y[None, :]
    found = minimize(lambda a: 0.5 * a @ H @ a - a.sum(), np.full(len(y), C / 2), jac=lambda a: H @ a - 1,
                     bounds=[(0, C)] * len(y), constraints={"type": "eq", "fun": lambda a: a @ y, "jac": lambda a: y},
                     method="SLSQP", options={"ftol": 1e-14, "maxiter": 1000})
    free = (found.x > 1e-6 * C) & (found.x < (1 - 1e-6) * C)
    return found.x * y, float(np.mean((y - K @ (found.x * y))[free]))


def without_points(W, leaving, kind="normalized"):
    """Return the energy (n - k, n - k) of the graph among the points that stay, and which stay: W without their rows.

    W : (n, n), dense, of all points; the weights between points that stay are what they were. A point that has no edge
    has the zero row.
    """
    stay = np.setdiff1d(np.arange(len(W)), leaving)
    E, own = np.zeros((len(stay), len(stay))), W[np.ix_(stay, stay)]
    linked = np.flatnonzero(own.sum(1))
    make = laplacian if kind == "unnormalized" else normalized_laplacian
    E[np.ix_(linked, linked)] = make(own[np.ix_(linked, linked)])
    return E, stay


def inductive_laprls(K_ns, K_ss, W, y, weight, labeled, held, gamma_A, gamma_I, kind="normalized", intercept=True):
    """Return the values at points `held` (h, t) of LapRLS on landmarks that has never seen them, labels nor points.

    K_ns (n, s), K_ss (s, s), W (n, n) : of all points. y (l, t), weight (l,) : of the points `labeled` (l,). held :
    positions among the labels. The penalties are against the weighted mean of the squared errors.
    """
    E, stay = without_points(W, labeled[held], kind)
    kept = np.setdiff1d(np.arange(len(labeled)), held)
    p = weight[kept] / weight[kept].sum()
    mean = p @ y[kept] if intercept else np.zeros(y.shape[1])
    K_m, K = K_ns[labeled[kept]], K_ns[stay]
    A = K_m.T @ (p[:, None] * K_m) + gamma_A * K_ss + gamma_I / len(stay) ** 2 * K.T @ E @ K
    return K_ns[labeled[held]] @ np.linalg.solve(A, K_m.T @ (p[:, None] * (y[kept] - mean))) + mean


# Learners on the graph. `labeled` (l,) are numbers of points and Y (l, c) their columns; W may be in pieces.


def components(W):
    """Return the number (n,) of each point's component: the smallest number of a point that a path leads to."""
    joined = (W > 0) | np.eye(len(W), dtype=bool)
    for _ in range(int(np.ceil(np.log2(len(W)))) + 1):
        joined = joined.astype(float) @ joined > 0
    return joined.argmax(axis=1)


def harmonic(W, labeled, Y):
    """Return f (n, c) with f = Y at the labeled points and L f = 0 at others that a path leads to; 0 beyond (Zhu 2003).
    """
    L, of = laplacian(W), components(W)
    free = np.setdiff1d(np.flatnonzero(np.isin(of, of[labeled])), labeled)
    f = np.zeros((len(W), Y.shape[1]))
    f[labeled] = Y
    f[free] = np.linalg.solve(L[np.ix_(free, free)], -L[np.ix_(free, labeled)] @ Y)
    return f


def poisson(W, labeled, Y, weight):
    """Return u (n, c): L u = sum w_i (y_i - mean) e_i on each component with labels, of mean 0 by degrees (Calder).

    A component whose labels are all equal has them, and one without labels 0. On a component with 20 unlabeled points
    or more, each column has the mean 0 and the deviation 1 over these, with tails of 5 and 20 % over the classes cut.
    """
    of, degrees = components(W), W.sum(1)
    u = np.zeros((len(W), Y.shape[1]))
    for number in np.unique(of[labeled]):
        own, mine = np.flatnonzero(of == number), of[labeled] == number
        mean = np.average(Y[mine], axis=0, weights=weight[mine])
        if (Y[mine] == Y[mine][0]).all():
            u[own] = Y[mine][0]
            continue
        b = np.zeros((len(W), Y.shape[1]))
        np.add.at(b, labeled[mine], weight[mine, None] * (Y[mine] - mean))
        u[own] = pseudo_inverse(laplacian(W[np.ix_(own, own)])) @ b[own]
        u[own] -= degrees[own] @ u[own] / degrees[own].sum()
        free = np.setdiff1d(own, labeled)
        if len(free) >= 20:
            classes = mean > 0
            for k in np.flatnonzero(classes):
                narrow, wide = (np.clip(u[free, k], *np.quantile(u[free, k], [tail, 1 - tail]))
                                for tail in np.array([0.2, 0.05]) / classes.sum())
                u[own, k] = (u[own, k] - wide.mean()) / (narrow.std() or 1)
            for k in np.flatnonzero(~classes):
                u[own, k] = u[np.ix_(own, classes)].min(axis=1) - 1
    return u


def graph_kernel(W, ridge, power, by_degree):
    """Return (L_norm + ridge I)^-power, or that between two D^-1/2; an isolated point has the zero row in L_norm."""
    degrees = W.sum(1)
    scale = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    G = np.linalg.matrix_power(np.linalg.inv(np.diag((degrees > 0) + ridge) - scale[:, None] * W * scale), power)
    return scale[:, None] * G * scale if by_degree else G


def scaled_ridge(K, labeled, Y, weight, penalty, size=None):
    """Return (f (n, c), mean (c,)) of ridge with a mean in K over its mean diagonal on the labeled points, or `size`.

    f is without the mean. penalty inf is the kernel mean.
    """
    K = K / (np.average(np.diagonal(K)[labeled], weights=weight) if size is None else size)
    mean = np.average(Y, axis=0, weights=weight)
    if np.isinf(penalty):
        return K[:, labeled] @ (weight[:, None] * (Y - mean)), mean
    A = K[np.ix_(labeled, labeled)] + penalty * np.diag(1 / weight)
    return K[:, labeled] @ np.linalg.solve(A, Y - mean), mean


def held_out_scaled_ridge(K, labeled, Y, weight, penalty):
    """Return the values (l, c) at each labeled point of `scaled_ridge` without it, in the scale of all."""
    size = np.average(np.diagonal(K)[labeled], weights=weight)
    found = []
    for i, point in enumerate(labeled):
        kept = np.arange(len(labeled)) != i
        f, mean = scaled_ridge(K, labeled[kept], Y[kept], weight[kept], penalty, size)
        found.append(f[point] + mean)
    return np.array(found)


def averaged_ridge(W, labeled, Y, weight, kernels, penalty, classes, alike=False):
    """Return (f (n, c), held out (l, c), shares (m,)) of the average over kernels (ridge, power, by_degree).

    Classes: each function is centered and divided by its deviation over the points that a label reaches, 0 elsewhere.
    Shares: exp(-sum w |e|^2 / (2 s^2)) of the residuals e left out, s = 1, or of quantities the least rms.
    """
    of, w = components(W), weight / weight.mean()
    reachable = np.isin(of, of[labeled])
    values, held_out, losses = [], [], []
    for kernel in kernels:
        K = graph_kernel(W, *kernel)
        f, mean = scaled_ridge(K, labeled, Y, weight, penalty)
        held_out_values = held_out_scaled_ridge(K, labeled, Y, weight, penalty)
        losses.append((w * ((held_out_values - Y) ** 2).sum(1)).sum())
        center = f[reachable].mean(0) if classes else -mean
        scale = (f[reachable] - center).std() if classes else 1.0
        values.append(np.where(reachable[:, None], (f - center) / scale, 0))
        kept = (weight @ Y - weight[:, None] * Y) / (weight.sum() - weight)[:, None] if classes else mean
        held_out.append((held_out_values - kept - center) / scale)
    unit = 1.0 if classes else min(losses) / len(Y)
    shares = np.exp(-(np.array(losses) - min(losses)) / (2 * unit))
    shares = np.full(len(kernels), 1 / len(kernels)) if alike else shares / shares.sum()
    return np.tensordot(shares, values, 1), np.tensordot(shares, held_out, 1), shares


# Which points to label next


def posterior_covariance(C, observed, noise):
    """Return C - C_o' (C_oo + noise I)^-1 C_o: the covariance of a Gaussian field after noisy values at some points."""
    C_o = C[observed]
    return C - C_o.T @ np.linalg.solve(C_o[:, observed] + noise * np.eye(len(observed)), C_o)


def suggestions(C, observed, noise, measure, count):
    """Return `count` points, each the one whose value lowers a measure of the posterior covariance most, and by what.

    measure : np.trace (Ji and Han 2012) or np.sum (Ma, Garnett and Schneider 2013), of a covariance.
    """
    observed, drops = list(observed), []
    for _ in range(count):
        now = measure(posterior_covariance(C, observed, noise))
        drop = [-np.inf if j in observed else now - measure(posterior_covariance(C, [*observed, j], noise))
                for j in range(len(C))]
        observed.append(int(np.argmax(drop)))
        drops.append(max(drop))
    return observed[-count:], drops


def random_walk_smoothed(W, P, stop):
    """Return the mean of P (v, c) where a random walk ends that stops with probability stop / (1 + stop) a step."""
    degrees = W.sum(axis=1)
    linked = degrees > 0
    T = np.where(linked[:, None], W / np.where(linked, degrees, 1)[:, None], np.eye(len(W)))
    rate = stop / (1 + stop)
    return rate * np.linalg.inv(np.eye(len(W)) - (1 - rate) * T) @ P


def logarithmic_pool(own, others, a, b):
    """Return the probabilities in proportion to own^a prod_k others_k^b_k, (n, n_classes)."""
    P = own**a * np.prod([other**weight for other, weight in zip(others, b, strict=True)], axis=0)
    return P / P.sum(axis=1, keepdims=True)


# Metrics


def _counts(x, z):
    """Return how many columns of two binary rows are 1 in both, in one alone (twice), and in none."""
    return (x * z).sum(), (x * (1 - z)).sum(), ((1 - x) * z).sum(), ((1 - x) * (1 - z)).sum()


def _ranks(x):
    """Return the rank of each value, the mean rank of equal ones."""
    return np.array([(x < value).sum() + ((x == value).sum() + 1) / 2 for value in x])


def _correlation(x, z):
    centered_x, centered_z = x - x.mean(), z - z.mean()
    r = centered_x @ centered_z / np.sqrt((centered_x @ centered_x) * (centered_z @ centered_z))
    return np.sqrt(2 * max(0, 1 - r))


def _kl(p, q):
    return (p * np.log(p / q)).sum()


def _haversine(x, z):
    half = (x - z) / 2
    return 2 * np.arcsin(np.sqrt(np.sin(half[0]) ** 2 + np.cos(x[0]) * np.cos(z[0]) * np.sin(half[1]) ** 2))


def _of_shares(formula):
    return lambda x, z: formula(x / x.sum(), z / z.sum())


def _of_counts(formula):
    def distance(x, z):
        return 0.0 if (x == z).all() else formula(*(float(count) for count in _counts(x, z)))
    return distance


def _earth_mover(cost):
    """Return the least cost of moving a distribution to another, by linear programming."""
    d = len(cost)
    sums = np.vstack([np.kron(np.eye(d), np.ones(d)), np.kron(np.ones(d), np.eye(d))])
    return _of_shares(lambda p, q: linprog(np.ravel(cost), A_eq=sums, b_eq=np.concatenate([p, q])).fun)


PARAMETRIZED = {
    "minkowski": lambda p=2, w=1: lambda x, z: (w * np.abs(x - z) ** p).sum() ** (1 / p),
    "seuclidean": lambda V: lambda x, z: np.sqrt(((x - z) ** 2 / V).sum()),
    "mahalanobis": lambda VI: lambda x, z: np.sqrt((x - z) @ VI @ (x - z)),
    "kantorovich": _earth_mover,
}
METRICS = {
    "manhattan": lambda x, z: np.abs(x - z).sum(),
    "chebyshev": lambda x, z: np.abs(x - z).max(),
    "sqeuclidean": lambda x, z: ((x - z) ** 2).sum(),
    "canberra": lambda x, z: (np.abs(x - z) / (np.abs(x) + np.abs(z))).sum(),
    "braycurtis": lambda x, z: np.abs(x - z).sum() / (x + z).sum(),
    "hamming": lambda x, z: (x != z).mean(),
    "haversine": _haversine,
    "correlation": _correlation,
    "spearmanr": lambda x, z: _correlation(_ranks(x), _ranks(z)),
    "hellinger": _of_shares(lambda p, q: np.sqrt(max(0, 1 - np.sqrt(p * q).sum()))),
    "jensen_shannon": _of_shares(lambda p, q: (_kl(p, (p + q) / 2) + _kl(q, (p + q) / 2)) / 2),
    "symmetric_kl": _of_shares(lambda p, q: _kl(p, q) + _kl(q, p)),
    "wasserstein_1d": _of_shares(lambda p, q: np.abs(np.cumsum(p - q)).sum()),
    "circular_kantorovich": _of_shares(lambda p, q: np.abs(np.cumsum(p - q) - np.median(np.cumsum(p - q))).sum()),
    "jaccard": _of_counts(lambda a, b, c, d: (b + c) / (a + b + c)),
    "dice": _of_counts(lambda a, b, c, d: (b + c) / (2 * a + b + c)),
    "matching": _of_counts(lambda a, b, c, d: (b + c) / (a + b + c + d)),
    "kulsinski": _of_counts(lambda a, b, c, d: (b + c - a + (a + b + c + d)) / (b + c + (a + b + c + d))),
    "rogerstanimoto": _of_counts(lambda a, b, c, d: 2 * (b + c) / (a + d + 2 * (b + c))),
    "russellrao": _of_counts(lambda a, b, c, d: (b + c + d) / (a + b + c + d)),
    "sokalmichener": _of_counts(lambda a, b, c, d: 2 * (b + c) / (a + d + 2 * (b + c))),
    "sokalsneath": _of_counts(lambda a, b, c, d: (b + c) / (a / 2 + b + c)),
    "yule": _of_counts(lambda a, b, c, d: 2 * b * c / (a * d + b * c) if b * c else 0.0),
}


def distances_by(metric, X, params=None):
    """Return the distances of all pairs of rows (n, n) by the formula of a metric."""
    formula = METRICS[metric] if params is None else PARAMETRIZED[metric](**params)
    return np.array([[formula(x, z) for z in X] for x in X])
