"""Whether this NumPy's BLAS multiplies right, before a test fails for it and names the wrong one.

The matrices hold small integers, so that every sum is exact in float32 and must agree to the last
bit with NumPy's own product of integers, which uses no BLAS. Some builds were wrong in float32
where a matrix meets its own transpose (numpy issue 31776); some set a processor's flags in
products that are right, and NumPy then warns of them (numpy issue 28687, macOS).
"""

import warnings

import numpy as np
from threadpoolctl import threadpool_info

SIZES = ((1, 7), (2, 3), (7, 16), (16, 64), (33, 5), (64, 64), (65, 100), (100, 129), (129, 33),
         (200, 96))
IGNORED = "ignore:(divide by zero|overflow|invalid value) encountered in matmul:RuntimeWarning"


def wrong_product(matmul=np.matmul):
    """(what, largest error) of the first product that is wrong, or None."""
    rng = np.random.default_rng(0)
    for n, k in SIZES:
        A, B = rng.integers(-8, 9, (n, k)), rng.integers(-8, 9, (k, n))
        wanted = {"A @ A.T": A @ A.T, "A.T @ A": A.T @ A, "A @ B": A @ B, "A @ x": A @ B[:, 0]}
        for dtype in ("float32", "float64"):
            a, b = A.astype(dtype), B.astype(dtype)
            found = {"A @ A.T": matmul(a, a.T), "A.T @ A": matmul(a.T, a), "A @ B": matmul(a, b),
                     "A @ x": matmul(a, b[:, 0])}
            for what, product in found.items():
                error = np.abs(product - wanted[what]).max()
                if not error == 0:                                  # NaN too
                    return f"{dtype} {what} of A ({n}, {k})", float(error)
    return None


def warns_without_cause(matmul=np.matmul):
    """Whether a product of finite numbers, far from overflow, warns."""
    rng = np.random.default_rng(1)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        for dtype in ("float32", "float64"):
            for shape in SIZES:
                a = rng.standard_normal(shape).astype(dtype)
                b = rng.standard_normal(shape[::-1]).astype(dtype)
                matmul(a, a.T), matmul(a.T, a), matmul(a, b), matmul(a, b[:, 0])
    return any("matmul" in str(warning.message) for warning in caught)


def blas_name():
    """The BLAS that NumPy has loaded: kind, version, kernels."""
    found = [" ".join(str(library.get(key)) for key in ("internal_api", "version", "architecture")
                      if library.get(key))
             for library in threadpool_info() if library["user_api"] == "blas"]
    return ", ".join(found) or "its BLAS"


def complaint(matmul=np.matmul):
    """One line that names the culprit, or None."""
    wrong = wrong_product(matmul)
    if wrong is None:
        return None
    what, error = wrong
    return (f"NumPy {np.__version__} with {blas_name()} computes {what} wrong, by {error:g}: not a "
            "test would mean anything. Install another build of NumPy (numpy issue 31776 is such "
            "a case)")
