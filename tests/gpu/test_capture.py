"""What the emulated card (tests/tools/cupy_on_cpu) does with a stream that is captured: nothing,
until the graph is launched; and what it refuses then, with a card's own errors."""

import contextlib

import numpy as np
import pytest

from npdl.backend import to_host, xp
from tests.tools import cupy_on_cpu
from tests.tools.device import needs_cupy

pytestmark = [*needs_cupy, pytest.mark.skipif(not cupy_on_cpu.installed(),
                                              reason="of the emulated card")]

ROW_SUMS = r"""
extern "C" __global__ void row_sums(const float* x, float* y, int D) {
    extern __shared__ float turned[];
    __shared__ float parts[2];
    int t = threadIdx.x;
    turned[t] = x[blockIdx.x * D + t];
    __syncthreads();
    float sum = turned[D - 1 - t];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (t % 32 == 0) parts[t / 32] = sum;
    __syncthreads();
    if (t == 0) y[blockIdx.x] = parts[0] + parts[1];
}
"""


@pytest.fixture
def stream(gpu):
    with xp.cuda.Stream(non_blocking=True) as stream:
        yield stream


def captured(stream, work, mode=None):
    stream.begin_capture(mode)
    try:
        work()
    finally:
        graph = stream.end_capture()
    return graph


def test_a_graph_computes_when_it_is_launched_and_from_what_lies_there_then(stream):
    a, b = xp.asarray(np.eye(3, dtype="f")), xp.full((3, 3), 2, "f")
    out, total = xp.zeros((3, 3), "f"), xp.zeros(3, "f")
    xp.matmul(a, b, out=out)                                # the handle, before
    out[...] = 0

    def work():
        xp.matmul(a, b, out=out)
        xp.add(out, 1, out=out)
        total[...] = out.sum(0)

    graph = captured(stream, work)
    assert not to_host(out).any()
    for factor in (1, 5):
        b[...] = 2 * factor
        with cupy_on_cpu.record() as events:
            graph.launch(stream)
        np.testing.assert_array_equal(to_host(total), 3 * (2 * factor + 1))
    assert [event.kind for event in events if event.kind != "node"] == ["graph"]
    assert len(events.of_kind("node")) == 4


def test_a_copy_from_pinned_memory_is_repeated_with_what_lies_there_then(stream):
    import cupyx

    here, there = cupyx.zeros_pinned(4, "f"), xp.ones(4, "f")
    pointer, size = here.ctypes.data, here.nbytes
    runtime = xp.cuda.runtime
    graph = captured(stream, lambda: runtime.memcpyAsync(
        there.data.ptr, pointer, size, runtime.memcpyHostToDevice, stream.ptr))
    here[:] = 7
    graph.launch(stream)
    assert (to_host(there) == 7).all()


def test_threads_of_a_block_work_together(stream):
    x, y = xp.asarray(np.random.default_rng(0).random((5, 64), "f")), xp.zeros(5, "f")
    kernel = xp.RawKernel(ROW_SUMS, "row_sums")
    graph = captured(stream, lambda: kernel((5,), (64,), (x, y, np.int32(64)), shared_mem=256))
    graph.launch(stream)
    np.testing.assert_allclose(to_host(y), to_host(x).sum(1), rtol=1e-6)


def test_a_missing_syncthreads_is_seen(stream):
    x, y = xp.ones((5, 64), "f"), xp.zeros(5, "f")
    broken = ROW_SUMS.replace("    __syncthreads();\n    float", "    float")
    kernel = xp.RawKernel(broken, "row_sums")
    kernel((5,), (64,), (x, y, np.int32(64)), shared_mem=256)
    assert np.isnan(to_host(y)).all()


# What a capture forbids: (what is done, the error, whether the capture is spoilt).
def host_read(x, stream):
    return float(x[0, 0])


def host_write(x, stream):
    x[...] = xp.asarray(np.ones((3, 3), "f"))


def wait_for_the_stream(x, stream):
    stream.synchronize()


def ask_the_stream(x, stream):
    return stream.done


def wait_for_the_device(x, stream):
    xp.cuda.Device().synchronize()


def cupys_own_product(x, stream):
    return x @ x


def wait_for_an_event_inside(x, stream):
    stream.record().synchronize()


def wait_for_an_event_outside(x, stream):
    event = xp.cuda.Event()
    event.record(xp.cuda.Stream.null)
    stream.wait_event(event)


def pageable_memory(x, stream):
    here, runtime = np.ones((3, 3), "f"), xp.cuda.runtime
    runtime.memcpyAsync(x.data.ptr, here.ctypes.data, here.nbytes, runtime.memcpyHostToDevice,
                        stream.ptr)


FORBIDDEN = [
    (host_read, "stream is capturing, so D2H", False),
    (host_write, "stream is capturing, so H2D", False),
    (wait_for_the_stream, "cudaErrorStreamCaptureUnsupported", True),
    (ask_the_stream, None, True),               # CuPy hands on no error of this call
    (wait_for_the_device, "cudaErrorStreamCaptureUnsupported", True),
    (cupys_own_product, "cuBLAS API during stream capture", False),
    (wait_for_an_event_inside, "cudaErrorCapturedEvent", True),
    (wait_for_an_event_outside, "cudaErrorStreamCaptureIsolation", True),
    (pageable_memory, "cudaErrorStreamCaptureUnsupported", True),
]


@pytest.mark.parametrize(("work", "error", "spoilt"), FORBIDDEN, ids=lambda x: getattr(
    x, "__name__", None))
def test_what_a_capture_forbids(stream, work, error, spoilt):
    x = xp.ones((3, 3), "f")
    stream.begin_capture()
    with pytest.raises(RuntimeError, match=error) if error else contextlib.nullcontext():
        work(x, stream)
    if spoilt:
        with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()
    else:
        stream.end_capture()                    # CuPy refused it, and CUDA never saw it
    work(x, stream)


def test_new_memory_is_forbidden_but_in_the_relaxed_mode_and_but_from_the_pool(stream):
    modes, pool = xp.cuda.runtime, xp.cuda.MemoryPool()
    with xp.cuda.using_allocator(pool.malloc):
        xp.empty(1000)                          # given back to the pool
        captured(stream, lambda: xp.empty(1000), modes.streamCaptureModeThreadLocal)
        for mode in (modes.streamCaptureModeThreadLocal, modes.streamCaptureModeGlobal):
            with pytest.raises(RuntimeError, match="cudaErrorStreamCapture"):
                captured(stream, lambda: xp.empty(10**6), mode)
        captured(stream, lambda: xp.empty(10**6), modes.streamCaptureModeRelaxed)


def test_the_legacy_stream_waits_for_a_blocking_one_and_not_for_the_other(gpu):
    x = xp.ones(3, "f")
    for non_blocking in (True, False):
        stream = xp.cuda.Stream(non_blocking=non_blocking)
        stream.begin_capture()
        if non_blocking:
            x += 1                              # done now, in no graph
            assert (to_host(x) == 2).all()
            stream.end_capture()
        else:
            with pytest.raises(RuntimeError, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
                x += 1
            with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
                stream.end_capture()


def test_setting_a_stream_takes_the_workspace_away(stream):
    """The trap for which each stream has a Handle of its own."""
    import ctypes

    a = xp.ones((3, 3), "f")
    xp.matmul(a, a)
    handle = xp.matmul.handle()

    def name():
        graph = captured(stream, lambda: xp.matmul(a, a))
        with cupy_on_cpu.record() as events:
            graph.launch(stream)
        return events.of_kind("node")[0].name

    assert name() == "product cublasSgemm"
    handle.ask("cublasSetStream_v2", handle.handle, ctypes.c_void_p(stream.ptr))
    assert name() == "product cublasSgemm, default workspace"
    xp.matmul.handles.clear()
