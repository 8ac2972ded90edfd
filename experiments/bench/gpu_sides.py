"""Both sides' training step on a GPU (experiments/gpu_day.py).

A side is a step that returns its loss without waiting for it, `synchronize`, `memory`, which
runs one more step and tells how many megabytes of the device were in use at most, and `forget`.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass

from npdl import backend
from npdl.backend import xp

from .cases import make_batch
from .npdl_side import npdl_batch, npdl_engine

MEGA = 2**20


@dataclass
class Side:
    step: Callable
    synchronize: Callable
    memory: Callable
    forget: Callable


def npdl_side(case, engine):
    """npdl under the backend that is chosen; `engine` is "fast" or "plain"."""
    engine, batch = npdl_engine(case, {"fast": "shared"}.get(engine, engine)), npdl_batch(case)
    clip, pool = case.optimizer["clip"], xp.get_default_memory_pool()

    def step():
        loss = engine.step(batch)
        if clip is not None:
            engine.clip(clip)
        engine.update()
        return loss

    def memory():
        with peak_memory(pool) as peak:
            step()
        return peak.most / MEGA

    return Side(step, backend.synchronize, memory, pool.free_all_blocks)


def peak_memory(pool):
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


def torch_side(case, compiled=None, device="cuda"):
    """PyTorch with its own attention or nn.LSTM and its fused AdamW; `compiled` is a mode of
    torch.compile, of which "reduce-overhead" makes CUDA graphs."""
    import torch

    from . import torch_side as sides
    from .torch_side import reference

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    model = sides.build_model(case, "nn.LSTM" if case.model == "lstm" else "sdpa").to(device)
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
        return torch.cuda.max_memory_allocated() / MEGA

    def forget():
        torch.compiler.reset()
        gc.collect()
        torch.cuda.empty_cache()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    return Side(step, synchronize, memory, forget)
