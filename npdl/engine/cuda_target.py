"""Lower a recording to a GPU through CuPy: kernels and cuBLAS's products, in CUDA graphs.

    host     guards, random draws, and what has no kernel: NumPy's own calls
    device   everything else

The operations are placed in turns of both (`places`), as few as possible: usually the guards and
the draws on the host, one copy of what the host has written, and one CUDA graph with all the rest.
A graph repeats the launches with the same addresses, so everything that changes from step to step
lies in memory that stays: the batch, the random draws, the numbers of the optimizer.
"""

import ctypes
import functools
import itertools

import numpy as np

from npdl.engine.arena import ALIGNMENT, Arena, rounded, views_of
from npdl.engine.cuda_source import BLOCK_HEAD, HEAD, ProductKernel, group_kernels, has_kernel
from npdl.engine.operation import View
from npdl.engine.schedule import find_local, schedule
from npdl.errors import BackendError


def places(operations):
    """Return [(on_host, operations)]: turns of the host and of the device.

    An operation runs in the first turn of its side after everything that it depends on.
    """
    on_host, levels = on_host_operations(operations), {}
    turns = {}
    for op in operations:
        host = id(op) in on_host
        level = 0 if host else 1                    # even levels are the host's
        touched = [*((view.buffer, False) for view in op.reads)]
        if op.output is not None:
            touched.append((op.output.buffer, True))
        for buffer, writes in touched:
            written, used = levels.get(id(buffer), (0, 0))
            before = max(written, used) if writes else written
            level = max(level, before + (before % 2 == host))
        for buffer, writes in touched:
            written, used = levels.get(id(buffer), (0, 0))
            levels[id(buffer)] = max(written, level) if writes else written, max(used, level)
        turns.setdefault(level, []).append(op)
    return [(level % 2 == 0, turns[level]) for level in sorted(turns)]


def on_host_operations(operations):
    """Return the ids of the operations that the host computes.

    They are those without a kernel, and those that lead to a guard if the host has what they read.
    """
    on_host = {id(op) for op in operations if not has_kernel(op)}
    elsewhere = {id(view.buffer) for op in operations for view in views_of([op])
                 if view.buffer.role == "state"}
    for op in operations:
        if op.output is not None and op.kind != "draw" and any(
                id(view.buffer) in elsewhere for view in op.reads):
            elsewhere.add(id(op.output.buffer))
    wanted = set()
    for op in reversed(operations):
        buffer = None if op.output is None else op.output.buffer
        if buffer is not None and id(buffer) in wanted and id(buffer) not in elsewhere:
            on_host.add(id(op))
        if id(op) in on_host:
            wanted.update(id(view.buffer) for view in op.reads)
    return on_host


class DeviceArena(Arena):
    """An arena in the device's memory."""

    def allocate(self):
        import cupy

        self.memory = cupy.zeros(self.nbytes + ALIGNMENT, np.uint8)
        self.address = self.memory.data.ptr


class DeviceMemory:
    """The device's memory of every buffer, and the host's of those that it uses too.

    state        is on the device
    temporaries  are in the arena, or shared, if the host uses them
    the rest     (inputs, numbers, constants) has been on the host all along
    """

    def __init__(self, arena, shared):
        import cupy
        import cupyx

        self.cupy, self.arena = cupy, arena
        self.hosts = {}                                 # id of a state's buffer: bytes on the host
        starts = list(itertools.accumulate((rounded(b.nbytes) for b in shared), initial=0))
        self.staged = dict(zip(map(id, shared), starts, strict=False))
        self.device = cupy.zeros(starts[-1] + ALIGNMENT, np.uint8)
        self.pinned = cupyx.zeros_pinned(starts[-1] + ALIGNMENT, np.uint8)
        self.copied = None                              # the event after the last copy from it

    def pointer(self, buffer):
        """Return the device's address of a buffer, as CuPy has it."""
        if id(buffer) in self.staged:
            return self.device.data + self.staged[id(buffer)]
        if buffer.is_temporary:
            return self.arena.memory.data + self.arena.offsets[id(buffer)]
        return buffer.array.data

    def address(self, view):
        return np.uintp(self.pointer(view.buffer).ptr + view.offset)

    def array(self, view):
        """Return the CuPy array of a view."""
        return self.cupy.ndarray(view.shape, view.dtype, self.pointer(view.buffer) + view.offset,
                                 view.strides)

    def bytes_of(self, buffer):
        """Return all bytes of a buffer on the device."""
        return self.cupy.ndarray((buffer.nbytes,), np.uint8, self.pointer(buffer))

    def host_bytes(self, buffer):
        """Return all bytes of a buffer on the host."""
        if buffer.role == "state":
            return self.hosts.setdefault(id(buffer), np.empty(buffer.nbytes, np.uint8))
        whole = View(buffer, 0, (buffer.nbytes,), (1,), np.dtype(np.uint8))
        return whole.array_at(buffer.address, buffer.array)

    def host_array(self, view):
        """Return the NumPy array of a view."""
        if view.buffer.role != "state":
            return view.array_at(view.buffer.address, view.buffer.array)
        memory = self.host_bytes(view.buffer)
        return view.array_at(memory.ctypes.data, memory)

    def upload(self, buffers):
        """Copy buffers from the host to the device: those that are staged by one copy."""
        stream = self.cupy.cuda.get_current_stream()
        staged = [b for b in buffers if id(b) in self.staged]
        if staged:
            if self.copied is not None:
                self.copied.synchronize()
            for buffer in staged:
                start = self.staged[id(buffer)]
                self.pinned[start:start + buffer.nbytes] = self.host_bytes(buffer)
            first = min(self.staged[id(b)] for b in staged)
            end = max(self.staged[id(b)] + b.nbytes for b in staged)
            (self.device.data + first).copy_from_host_async(
                ctypes.c_void_p(self.pinned.ctypes.data + first), end - first, stream)
            self.copied = stream.record()
        for buffer in buffers:
            if id(buffer) not in self.staged:
                self.bytes_of(buffer).set(self.host_bytes(buffer), stream)

    def download(self, buffers):
        """Copy buffers from the device to the host."""
        stream = self.cupy.cuda.get_current_stream()
        for buffer in buffers:
            self.bytes_of(buffer).get(stream, out=self.host_bytes(buffer))
        stream.synchronize()


class CudaLowered:
    """The calls of a recording on a GPU.

    calls    functions without arguments; made_of, for each the operations that it makes
    """

    def __init__(self, groups, results, target):
        operations = [op for group in groups for op in group.operations]
        self.target, self.calls, self.made_of = target, [], []
        turns = places(operations)
        inputs = self._share(turns, results)
        lowered = [None if host else schedule(ops) for host, ops in turns]
        device = [group for groups in lowered if groups is not None for group in groups]
        find_local(device, results)
        kernels = {id(group): group_kernels(group, f"g{i}") for i, group in enumerate(device)}
        arena = DeviceArena(device, results)
        self.memory = DeviceMemory(arena, self.shared)
        with target.turn():
            self.memory.upload(self.shared)
        functions = compiled([k for found in kernels.values() for k in found])
        fresh = {id(b): b for b in inputs}              # what the host has written, not yet copied
        stale = {}                                      # what the device has written
        for (host, ops), groups in zip(turns, lowered, strict=True):
            if host:
                self._add_host_turn(ops, fresh, stale)
            else:
                self._add_device_turn(ops, groups, kernels, functions, fresh, stale)
        self.array = self.memory.array
        left = [b for key, b in fresh.items() if b.role == "state" or any(
            id(x.buffer) == key for x in results)]
        if left:
            self._add(functools.partial(self.on_stream, self.memory.upload, left), [])

    def _share(self, turns, results):
        """Give a temporary that the host uses memory there; returns what changes in every step."""
        touched = {}
        for host, ops in turns:
            for view in views_of(ops):
                if host or not view.buffer.is_temporary:
                    touched[id(view.buffer)] = view.buffer
        touched |= {id(x.buffer): x.buffer for x in results if not x.buffer.is_temporary}
        for buffer in touched.values():
            if buffer.is_temporary:
                buffer.array = np.zeros(buffer.nbytes, np.uint8)
                buffer.role, buffer.address = "shared", buffer.array.ctypes.data
        order = {"input": 0, "number": 0, "shared": 1, "constant": 2}
        self.shared = sorted((b for b in touched.values() if b.role != "state"),
                             key=lambda buffer: order[buffer.role])
        return [b for b in self.shared if order[b.role] == 0]

    def _add(self, call, operations):
        self.calls.append(call)
        self.made_of.append(operations)

    def on_stream(self, function, *arguments):
        """Call a function while the target's stream is the current one."""
        with self.target.turn():
            function(*arguments)

    def _add_host_turn(self, operations, fresh, stale):
        """Add NumPy's calls, and before them the download of their inputs from the device."""
        needed = {id(view.buffer): view.buffer for view in views_of(operations)
                  if id(view.buffer) in stale or view.buffer.role == "state" and (
                      id(view.buffer) not in fresh)}
        if needed:
            self._add(functools.partial(self.on_stream, self.memory.download,
                                        list(needed.values())), [])
        for key in needed:
            stale.pop(key, None)
        for op in operations:
            inputs = [self.memory.host_array(x) if isinstance(x, View) else x for x in op.inputs]
            out = None if op.output is None else self.memory.host_array(op.output)
            self._add(functools.partial(op.run, *inputs, out=out), [op])
            if op.output is not None:
                fresh[id(op.output.buffer)] = op.output.buffer

    def _add_device_turn(self, operations, groups, kernels, functions, fresh, stale):
        """Add one upload of the values that the host has written, and one graph of kernels."""
        used = {id(view.buffer) for view in views_of(operations)}
        copied = [fresh.pop(key) for key in list(fresh) if key in used]
        launches = [self._launch(kernel, functions) for group in groups
                    for kernel in kernels[id(group)]]
        self._add(DeviceTurn(self.target, self.memory, copied, launches), operations)
        for op in operations:
            stale[id(op.output.buffer)] = op.output.buffer

    def _launch(self, kernel, functions):
        """Return a function without arguments that runs a kernel, or its product by cuBLAS."""
        if isinstance(kernel, ProductKernel):
            call = product(*map(self.memory.array, kernel.views))
            if call is not None:
                return call
        arguments = tuple(map(self.memory.address, kernel.views))
        return functools.partial(functions[id(kernel)], kernel.grid, kernel.block, arguments)


def product(a, b, out):
    """Return a function that computes a @ b by cuBLAS, for matrices or stacks of them.

    Returns None if cuBLAS can't read them.
    """
    from npdl.backend import xp

    if xp.matmul.plan(a, b, out) is not None:
        return functools.partial(xp.matmul, a, b, out)
    return xp.matmul.stacked(a, b, out) if out.ndim > 2 else None


def compiled(kernels):
    """Compile the kernels and return {id of a kernel: its function}.

    Kernels whose threads wait for each other are compiled as one module.
    """
    import cupy

    functions = {}
    for together in (False, True):
        own = [k for k in kernels if k.together == together]
        if own:
            source = "\n".join([HEAD, BLOCK_HEAD * together, *(k.text for k in own)])
            module = cupy.RawModule(code=source)
            functions |= {id(k): module.get_function(k.name) for k in own}
    return functions


class DeviceTurn:
    """A copy of what the host has written, and launches: the first time they are made one by one,
    then as a CUDA graph."""

    def __init__(self, target, memory, copied, launches):
        self.target, self.memory, self.copied, self.launches = target, memory, copied, launches
        self.warm, self.graph = False, None

    def __call__(self):
        with self.target.turn():
            self.memory.upload(self.copied)
            self._launch()

    def _launch(self):
        if self.graph is None and self.warm and self.target.captures:
            self._capture()
        if self.graph is not None:
            self.graph.launch(self.target.stream)
            return
        for launch in self.launches:
            launch()
        self.warm = True

    def _capture(self):
        """Capture the launches; where CUDA can't, go on without a graph, after one line."""
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
        self.target.note(f"no CUDA graph ({' '.join(str(why).split())[:150]}); the kernels of the "
                         "step are launched one by one")


class CudaTarget:
    """On a GPU. `captures` says whether the launches become CUDA graphs."""

    name = "cuda"

    def __init__(self, note, captures=True):
        import cupy

        self.note, self.captures, self.cupy = note, captures, cupy
        self.stream = stream_of(cupy)

    def lower(self, groups, results):
        return CudaLowered(groups, results, self)

    def turn(self):
        """Use the target's stream, between what other streams do before and after."""
        return Turn(self.cupy, self.stream)


class Turn:
    """The current stream waits for another one, which has waited for it."""

    def __init__(self, cupy, stream):
        self.cupy, self.stream = cupy, stream

    def __enter__(self):
        self.outer = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(self.outer.record())
        self.stream.__enter__()

    def __exit__(self, *error):
        self.stream.__exit__(*error)
        self.outer.wait_event(self.stream.record())


@functools.cache
def stream_of(cupy):
    """Return the stream of all steps, because each stream has a cuBLAS handle of its own."""
    return cupy.cuda.Stream(non_blocking=True)
