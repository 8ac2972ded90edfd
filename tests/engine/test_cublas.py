"""npdl/engine/cublas.py multiplies arrays of any layout, in TF32 if CuPy's setting is TF32."""

import itertools

import numpy as np
import pytest

from npdl.backend import to_device, to_host, xp
from npdl.engine import cublas
from npdl.engine.cuda_target import make_stream_and_handle
from npdl.train.versions import collect_versions
from tests.tools.device import needs_cupy

pytestmark = needs_cupy


def test_product_of_any_layout_equals_numpy(gpu):
    rng, (stream, handle) = np.random.default_rng(0), make_stream_and_handle(xp._module)
    x = to_device(rng.standard_normal((5, 8, 12)))
    pairs = [(x[:, None, :3], to_device(rng.standard_normal((5, 2, 12, 4))))]
    for dtype, (a, b), *turned in itertools.product("fd", [
            ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 3, 4), (4, 5)), ((1, 4), (4, 1)),
            ((4, 1), (1, 5)), ((1, 1), (1, 1)), ((6, 1, 4), (6, 4, 5))], *[(False, True)] * 2):
        made = [to_device(rng.standard_normal(shape).astype(dtype)) for shape in (a, b)]
        pairs.append([xp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if turn else x
                      for x, turn in zip(made, turned, strict=True)])
    for a, b in pairs:
        wanted = to_host(a) @ to_host(b)
        out = to_device(np.zeros(wanted.shape, wanted.dtype))
        assert cublas.can_multiply(a, b, out)
        product = handle.make_product_function(a, b, out)
        with stream:
            product()
        stream.synchronize()
        np.testing.assert_allclose(to_host(out), wanted, rtol=1e-4, atol=1e-5)
    for a, b in ((x[:, ::2, ::3], x[:, :4, :2]), (x.astype("f"), x[0].T), (x[:, :, :0], x[0, :0])):
        assert not cublas.can_multiply(a, b, xp.zeros((*a.shape[:-1], b.shape[-1])))


@pytest.mark.parametrize("tf32", [False, True])
def test_products_follow_cupys_tf32_setting(gpu, monkeypatch, tf32):
    """A handle of npdl uses TF32 if CuPy does (CUPY_TF32=1)."""
    linalg, asked = xp._module._core._routines_linalg, []
    kind = linalg.COMPUTE_TYPE_TF32 if tf32 else linalg.COMPUTE_TYPE_DEFAULT
    before = linalg.get_compute_type("f")
    monkeypatch.setattr(cublas.Handle, "call", lambda self, *given: asked.append(given))
    linalg.set_compute_type("f", kind)
    try:
        handle = cublas.Handle(xp._module, xp.cuda.Stream(non_blocking=True).ptr)
        assert collect_versions()["products"] == ("TF32" if tf32 else "float32")
    finally:
        linalg.set_compute_type("f", before)
    modes = [given for name, *given in asked if name == "cublasSetMathMode"]
    assert modes == ([[handle.handle, cublas.TF32]] if tf32 else [])
    # Setting a stream removes the workspace, so the workspace is set afterwards.
    names = [name for name, *_ in asked]
    assert names.index("cublasSetStream_v2") < names.index("cublasSetWorkspace_v2")
