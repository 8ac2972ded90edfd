"""Record a step of a model on a GPU: the step runs once on the host, on copies of the state.

So nothing of the recorder knows CuPy. After the recording each buffer of the state is the GPU's
again, and the step is replayed there, from the state as it was.
"""

import numpy as np

from npdl import backend
from npdl.core import rebuilt
from npdl.engine.recorded_array import Unsupported
from npdl.engine.recording import Recorder


class DeviceRecorder(Recorder):
    """A Recorder of arrays on a GPU."""

    def __init__(self):
        super().__init__()
        self._roots, self._arrays = {}, {}      # id: (array on the GPU, its copy on the host)

    def __enter__(self):
        super().__enter__()
        self._backend = backend.using("numpy")
        self._backend.__enter__()
        return self

    def __exit__(self, *error):
        self._backend.__exit__(*error)
        super().__exit__(*error)
        for device, host in self._roots.values():
            self._buffers[id(host)].array = device

    def wrap(self, array, role):
        if not backend.is_device_array(array):
            return super().wrap(array, role)
        root = array
        while root.base is not None:
            root = root.base
        if not root.flags.c_contiguous:
            raise Unsupported("an array of the state is not contiguous")
        if id(root) not in self._roots:
            self._roots[id(root)] = root, root.get()
        host = np.ndarray(array.shape, array.dtype, self._roots[id(root)][1],
                          array.data.ptr - root.data.ptr, array.strides)
        self._arrays[id(host)] = array, host
        return super().wrap(host, role)

    def plain(self, recorded):
        """The GPU's array of a recorded one."""
        known = self._arrays.get(id(recorded.value))
        return backend.to_device(recorded.value) if known is None else known[0]

    def keep_results(self):
        """Copy the state that the host has computed to the GPU."""
        for device, host in self._roots.values():
            device.set(host)


def moved(nest, move):
    """Arguments of a step with each array moved: backend.to_host, backend.to_device."""
    if isinstance(nest, (tuple, list, dict)):
        items = nest.values() if isinstance(nest, dict) else nest
        return rebuilt(nest, [moved(item, move) for item in items])
    is_array = isinstance(nest, np.ndarray) or backend.is_device_array(nest)
    return move(nest) if is_array else nest
