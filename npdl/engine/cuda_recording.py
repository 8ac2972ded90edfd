"""Record a training step of a model on a GPU. The step runs once on the CPU, with copies.

The copies are those of the state: parameters, gradients and moments. So the recorder needs no code
for CuPy. After the recording, the buffers of the state refer to the GPU's arrays again. These have
not changed, so the first replay starts from the state before the step.
"""

import numpy as np

from npdl import backend
from npdl.engine.recorded_array import Unsupported
from npdl.engine.recording import Recorder, map_nest


class DeviceRecorder(Recorder):
    """A Recorder for a state on a GPU. It records with copies on the CPU."""

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
            raise Unsupported(f"an array {root.shape} of the model is not contiguous")
        if id(root) not in self._roots:
            self._roots[id(root)] = root, root.get()
        host = np.ndarray(array.shape, array.dtype, self._roots[id(root)][1],
                          array.data.ptr - root.data.ptr, array.strides)
        self._arrays[id(host)] = array, host
        return super().wrap(host, role)

    def plain_array(self, recorded):
        """Return the array on the GPU that belongs to a recorded array."""
        known = self._arrays.get(id(recorded.value))
        return backend.to_device(recorded.value) if known is None else known[0]

    def upload_state(self):
        """Copy the state that the step computed on the CPU into the arrays on the GPU."""
        for device, host in self._roots.values():
            device.set(host)


def move_arrays(nest, move):
    """Return nested tuples, lists and dicts, in which each array x is replaced by move(x)."""
    def moved_item(x):
        return move(x) if isinstance(x, np.ndarray) or backend.is_device_array(x) else x
    return map_nest(moved_item, nest)
