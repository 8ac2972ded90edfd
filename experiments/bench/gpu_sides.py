"""Both sides' training step on a GPU, and what is counted beside its time.

Imported by the workers of experiments/bench_gpu.py only; each imports CuPy or PyTorch itself.
A side is a step that returns its loss without waiting for it, `synchronize`, `memory`, which
runs one more step and tells how many megabytes of the device it needed, and `forget`.
"""

import gc
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from .cases import make_batch

MEGA = 2**20


@dataclass
class Side:
    step: Callable
    synchronize: Callable
    memory: Callable
    forget: Callable


def npdl_side(case, work="equal"):
    """npdl on CuPy. The batch is on the device already, as a trainer's that never changes is."""
    from npdl import backend

    backend.use("cupy")
    from npdl.backend import to_device, xp
    from npdl.training.engine import Batch

    from .npdl_side import npdl_batch, npdl_engine

    engine, batch = npdl_engine(case, work), npdl_batch(case)
    if work == "plain":                 # the wing keeps what it has put there, the textbook nothing
        batch = Batch(*map(to_device, (batch.inputs, batch.targets, batch.counted)))
    clip, pool = case.optimizer["clip"], xp.get_default_memory_pool()

    def step():
        loss = engine.step(batch)
        if clip is not None:
            engine.clip(clip)
        engine.update()
        return loss

    def memory():
        with peak_memory(xp, pool) as peak:
            step()
        return {"peak_mb": peak.most / MEGA, "held_mb": pool.total_bytes() / MEGA}

    def forget():
        gc.collect()
        pool.free_all_blocks()

    return Side(step, backend.synchronize, memory, forget)


def peak_memory(xp, pool):
    """A context that follows the bytes in use in CuPy's pool; `most` is the largest number.

    CuPy keeps no such maximum itself; PyTorch does (max_memory_allocated).
    """

    class Peak(xp.cuda.MemoryHook):
        name = "Peak"
        now = most = pool.used_bytes()

        def malloc_postprocess(self, **facts):
            self.now += facts["mem_size"]
            self.most = max(self.most, self.now)

        def free_postprocess(self, **facts):
            self.now -= facts["mem_size"]

    return Peak()


def torch_side(case, form, compiled=None, tf32=False, device="cuda"):
    """PyTorch with its fused AdamW; `compiled` is a mode of torch.compile ("default", ...)."""
    import torch

    from . import torch_side as sides
    from .torch_side import reference

    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    model = sides.build_model(case, form).to(device).float()    # the fixed positions, too
    optimizer = sides.build_optimizer(model, case, "fused")
    inputs, targets, mask = (torch.from_numpy(a).to(device) for a in make_batch(case))
    params, clip = list(model.parameters()), case.optimizer["clip"]

    def loss_of(inputs, targets, mask):
        if case.is_text:
            return reference.next_token_loss(model(inputs), targets)
        return reference.answer_loss(model(inputs), targets, mask)

    if compiled:
        loss_of = torch.compile(loss_of, mode=compiled, dynamic=False)

    def step():
        if compiled:
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, targets, mask)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimizer.step()
        return loss.detach()

    def memory():
        torch.cuda.reset_peak_memory_stats()
        step()
        return {"peak_mb": torch.cuda.max_memory_allocated() / MEGA,
                "held_mb": torch.cuda.memory_reserved() / MEGA}

    def forget():
        torch.compiler.reset()
        gc.collect()
        torch.cuda.empty_cache()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    return Side(step, synchronize, memory, forget)


def count_kernels(side, steps=5):
    """{kernels, copies, launches} of one step, by PyTorch's profiler, which sees CuPy's too.

    kernels   that ran on the device
    copies    between host and device or on it, and fills of memory
    launches  calls by which the host started kernels; a CUDA graph is one call, many kernels
    Raises ArithmeticError when the profiler saw no kernel at all.
    """
    from torch.profiler import ProfilerActivity, profile

    for _ in range(3):
        side.step()
    side.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        for _ in range(steps):
            side.step()
        side.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        trace.export_chrome_trace(path)
        with open(path) as file:
            return count_events(json.load(file)["traceEvents"], steps)


def count_events(events, steps):
    """The counts of `count_kernels` from a trace of so many steps."""
    counts = {"kernels": 0, "copies": 0, "launches": 0}
    for event in events:
        kind, name = event.get("cat"), event.get("name", "")
        if kind == "kernel":
            counts["kernels"] += 1
        elif kind in ("gpu_memcpy", "gpu_memset"):
            counts["copies"] += 1
        elif kind in ("cuda_runtime", "cuda_driver") and "Launch" in name:
            counts["launches"] += 1
    if counts["kernels"] == 0:
        raise ArithmeticError("the profiler saw no kernel; it may lack the right to count them")
    return {name: count / steps for name, count in counts.items()}
