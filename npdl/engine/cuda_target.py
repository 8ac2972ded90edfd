"""Run a recording on a GPU with CuPy: generated kernels and cuBLAS products in one CUDA graph.

    host     NumPy computes guards, the operations that compute their inputs, and random draws
    copy     the host's results, the batch and the numbers of the step are copied to the device
    device   one CUDA graph computes all other operations

A graph repeats the launches with the same addresses. So all inputs that change from step to step
(the batch, the random draws, the numbers of the optimizer) are copied to fixed addresses.
"""

import contextlib
import ctypes
import functools
import itertools

import numpy as np

from npdl.engine.arena import ALIGNMENT, align_size, allocate, plan_arena
from npdl.engine.cublas import Handle
from npdl.engine.cuda_source import HEAD, REDUCTIONS, Kernel, can_run_on_gpu, make_kernels
from npdl.engine.numpy_target import make_call
from npdl.engine.operation import View
from npdl.engine.recorded_array import Unsupported
from npdl.engine.schedule import group_operations
from npdl.engine.simplify import split_off_movable
from npdl.errors import BackendError


def split_host_and_device(operations):
    """Return (host, device): the operations that the CPU computes first, and those of the GPU.

    Operations that have no kernel, such as guards and draws, run on the CPU. So do the operations
    that compute their inputs. Raises Unsupported if an operation on the CPU would need the state or
    a result of the GPU.
    """
    on_host, needed = {}, {}        # {operation, or buffer: the operation without a kernel}
    for op in reversed(operations):
        if not can_run_on_gpu(op) or op.output.buffer in needed:
            on_host[op] = op if not can_run_on_gpu(op) else needed[op.output.buffer]
            needed.update((view.buffer, on_host[op]) for view in op.read_views)
    host, device = split_off_movable(operations, {op for op in on_host if not any(
        view.buffer.role == "state" for view in op.views)})
    for op in device:
        if op in on_host:
            cause = on_host[op]
            raise Unsupported(f"{cause.kind} has no kernel, so it runs on the CPU, but its input "
                              f"is on the GPU ({cause.source[0]}:{cause.source[1]})")
    return host, device


class DeviceMemory:
    """The memory of all buffers on the GPU (the device).

    The state is on the GPU already. `offsets` and `nbytes` are the plan of the arena, for the
    temporary buffers. All other buffers (inputs, numbers, constants, results of the CPU) are copied
    from the CPU. `staged` is the list of these buffers, from prepare_uploads.
    """

    def __init__(self, offsets, nbytes, staged):
        import cupy
        import cupyx

        starts = list(itertools.accumulate((align_size(b.nbytes) for b in staged), initial=0))
        arena, device = (cupy.zeros(n + ALIGNMENT, np.uint8).data for n in (nbytes, starts[-1]))
        self.cupy, self.device = cupy, device
        self.pointers = {buffer: arena + offset for buffer, offset in offsets.items()}
        self.pointers |= {b: device + start for b, start in zip(staged, starts, strict=False)}
        self.parts = [(start, View(b, 0, (b.nbytes,), (1,), np.dtype(np.uint8)).as_array())
                      for start, b in zip(starts, staged, strict=False)]
        self.pinned = cupyx.zeros_pinned(starts[-1] + ALIGNMENT, np.uint8)
        self.copied = None                      # the event after the last copy from `pinned`

    def get_array(self, view):
        """Return the CuPy array of a view."""
        buffer = view.buffer
        start = self.pointers[buffer] if buffer in self.pointers else buffer.array.data
        return self.cupy.ndarray(view.shape, view.dtype, start + view.offset, view.strides)

    def upload_staged(self, buffer_count):
        """Copy the first `buffer_count` buffers of `staged` to the device, in one transfer."""
        if buffer_count == 0:
            return
        stream = self.cupy.cuda.get_current_stream()
        if self.copied is not None:
            self.copied.synchronize()
        for start, part in self.parts[:buffer_count]:
            self.pinned[start:start + len(part)] = part
        self.device.copy_from_host_async(
            ctypes.c_void_p(self.pinned.ctypes.data), start + len(part), stream)
        self.copied = stream.record()


def prepare_uploads(host_ops, device_ops, results):
    """Return (buffers, n): the list of the Buffers that are copied from the CPU to the GPU.

    The first n Buffers are copied in every step, and the rest once. This function also allocates
    CPU memory for the temporary buffers that the CPU computes.
    """
    for buffer in [view.buffer for op in host_ops for view in op.views]:
        if buffer.is_temporary:
            buffer.role = "shared"
            allocate({buffer: 0}, buffer.nbytes)
    views = [view for op in device_ops for view in op.views] + results
    used = list(dict.fromkeys(view.buffer for view in views))       # each once, in this order
    changing = [b for b in used if b.role in ("input", "number", "shared")]
    if any(b.role in ("state", "scalar") and isinstance(b.array, np.ndarray) for b in used):
        raise Unsupported("the model has a NumPy array or a NumPy scalar that the step reads or "
                          "changes on the GPU; give the model CuPy arrays, and Python numbers")
    return changing + [b for b in used if b.role == "constant"], len(changing)


class CudaCalls:
    """The function calls that replay a recording on a GPU.

    calls            functions without arguments
    call_operations  for each call, the operations that it computes
    results          the arrays of the results after the last call
    """

    def __init__(self, operations, results, target):
        host, device = split_host_and_device(operations)
        staged, changing = prepare_uploads(host, device, results)
        groups = group_operations(device, results)
        kernels = [kernel for i, group in enumerate(groups)
                   for kernel in make_kernels(group, f"g{i}")]
        self.target = target
        self.memory = DeviceMemory(*plan_arena(groups, results), staged)
        self.results = [self.memory.get_array(view) for view in results]
        with target.using_stream():
            self.memory.upload_staged(len(staged))
        functions = compile_kernels([k for k in kernels if isinstance(k, Kernel)])
        launches = [self._make_launch(kernel, functions) for kernel in kernels]
        self.calls = [*(make_call(op) for op in host),
                      DeviceCall(target, self.memory, changing, launches)]
        self.call_operations = [[op] for op in host] + [device]

    def _make_launch(self, kernel, functions):
        """Return a function without arguments that launches a kernel.

        `kernel` is a Kernel, or an operation that cuBLAS or CuPy computes (`is_library_call`).
        """
        if isinstance(kernel, Kernel):
            arguments = tuple(map(self.memory.get_array, kernel.views))
            return functools.partial(functions[kernel], kernel.grid, kernel.block, arguments)
        x, *others = map(self.memory.get_array, kernel.views)
        if kernel.kind == "matmul":
            return self.target.handle.make_product_function(x, *others)
        return functools.partial(getattr(x, REDUCTIONS[kernel.kind]), out=others[0],
                                 **kernel.options)


def compile_kernels(kernels):
    """Compile the kernels as one module and return {kernel: its function}."""
    import cupy

    if not kernels:
        return {}
    module = cupy.RawModule(code="\n".join([HEAD, *(kernel.text for kernel in kernels)]))
    return {kernel: module.get_function(kernel.name) for kernel in kernels}


class DeviceCall:
    """The call that runs the GPU's part of a step.

    First, it copies the buffers that change in every step to the GPU (`copied` is their number).
    Then it launches the kernels: the first time one by one, later as one CUDA graph. CuPy's
    reductions need temporary memory. It comes from a separate pool, because a graph uses the same
    memory in every step.
    """

    def __init__(self, target, memory, copied, launches):
        self.target, self.memory, self.copied, self.launches = target, memory, copied, launches
        self.warm, self.graph, self.pool = False, None, target.cupy.cuda.MemoryPool()

    def __call__(self):
        allocator = self.target.cupy.cuda.using_allocator(self.pool.malloc)
        with self.target.using_stream(), allocator:
            self.memory.upload_staged(self.copied)
            if self.graph is None and self.warm and self.target.captures:
                self._capture_graph()
            if self.graph is not None:
                self.graph.launch(self.target.stream)
                return
            for launch in self.launches:
                launch()
            self.warm = True

    def _capture_graph(self):
        """Capture the launches as a CUDA graph. If that fails, print one line with the reason."""
        stream, why, graph = self.target.stream, None, None
        try:
            stream.begin_capture()
            for launch in self.launches:
                launch()
        except (RuntimeError, BackendError) as error:
            why = error
        finally:                                # an interrupt, too, leaves the stream usable
            try:
                graph = stream.end_capture()
            except RuntimeError as error:
                why = why or error
        if why is None:
            self.graph = graph
            return
        self.target.captures = False
        self.target.print_note("the step can't be captured as a CUDA graph "
                               f"({' '.join(str(why).split())[:150]}), so its kernels are launched "
                               "one by one, which is slower")


class CudaTarget:
    """The target "cuda". `captures` is True if the launches become CUDA graphs."""

    name = "cuda"

    def __init__(self, print_note):
        import cupy

        self.print_note, self.captures, self.cupy = print_note, True, cupy
        self.stream, self.handle = make_stream_and_handle(cupy)

    def make_calls(self, operations, results):
        return CudaCalls(operations, results, self)

    @contextlib.contextmanager
    def using_stream(self):
        """Use the target's stream in a `with` block.

        The block waits for the earlier work of the current stream. Later work of the current stream
        waits for the block.
        """
        outer = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(outer.record())
        try:
            with self.stream:
                yield
        finally:
            outer.wait_event(self.stream.record())


@functools.cache
def make_stream_and_handle(cupy):
    """Return the one stream of all steps, and its cuBLAS handle, which needs 32 MiB."""
    stream = cupy.cuda.Stream(non_blocking=True)
    return stream, Handle(cupy, stream.ptr)
