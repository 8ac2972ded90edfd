"""The pretended GPU of tests/tools/fakecupy.py: its memory, what it says of itself, how it fails."""

import types
import weakref

TOTAL = 8 * 2**30                               # bytes of memory that it says it has


class OutOfMemoryError(MemoryError):
    """As CuPy's: raised where an array does not fit any more."""

    def __init__(self, size, total, limit):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} "
                         f"bytes, limit set to: {limit:,} bytes).")


OutOfMemoryError.__module__ = "cupy.cuda.memory"


class CUDARuntimeError(RuntimeError):
    """As CuPy's: what the driver reports."""


CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


class Memory:
    """Bytes that arrays hold, counted where there is a `limit`."""

    def __init__(self):
        self.epoch = 0
        self.reset(None)

    def reset(self, limit):
        """Begin anew; arrays from before count no more."""
        self.epoch += 1
        self.limit = limit
        self.used = self.top = 0
        self.hooks = []

    def hold(self, array):
        """Count a new array that owns its memory, until it is freed."""
        if self.limit is None:
            return
        if self.used + array.nbytes > self.limit:
            raise OutOfMemoryError(array.nbytes, self.used, self.limit)
        self.used += array.nbytes
        self.top = max(self.top, self.used)
        for hook in self.hooks:
            hook.malloc_postprocess(device_id=0, size=array.nbytes, mem_size=array.nbytes,
                                    mem_ptr=id(array), pmem_id=id(array))
        weakref.finalize(array, self._free, array.nbytes, self.epoch).atexit = False

    def _free(self, size, epoch):
        if epoch != self.epoch:
            return
        self.used -= size
        for hook in self.hooks:
            hook.free_postprocess(device_id=0, mem_size=size, mem_ptr=0, pmem_id=0)

    def pool(self):
        """What get_default_memory_pool returns."""
        def set_limit(size):
            self.limit = size or None

        return types.SimpleNamespace(used_bytes=lambda: self.used, total_bytes=lambda: self.top,
                                     set_limit=set_limit, free_all_blocks=lambda: None)

    def hook_class(self):
        """The class MemoryHook; active between __enter__ and __exit__."""
        memory = self

        class MemoryHook:
            def malloc_postprocess(self, **facts):
                pass

            def free_postprocess(self, **facts):
                pass

            def __enter__(self):
                memory.hooks.append(self)
                return self

            def __exit__(self, *error):
                memory.hooks.remove(self)

        return MemoryHook


def make_cuda(memory, waits):
    """The module cupy.cuda, with one device."""
    stream = types.SimpleNamespace(synchronize=lambda: waits.append("synchronize"))
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda device: {"name": b"Pretended GPU", "totalGlobalMem": TOTAL},
        memGetInfo=lambda: (TOTAL - memory.used, TOTAL),
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
        CUDARuntimeError=CUDARuntimeError,
    )
    return types.SimpleNamespace(
        runtime=runtime,
        get_current_stream=lambda: stream,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        MemoryHook=memory.hook_class(),
    )
