"""Both sides' training step on a GPU (experiments/gpu_day.py).

A side is a step that returns its loss without waiting for it, `synchronize`, `memory`, which runs
one more step and tells how many megabytes of the device were in use at most (None: its counters do
not see that), `elapsed`, the device's milliseconds of some steps (None: no device), and `forget`.
`new` is a new batch each time, drawn from the case's with repetition; its inputs are on the host.
"""

import gc
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npdl import backend
from npdl.backend import xp
from npdl_train.runs.engine import Batch, make_engine

from .npdl_side import npdl_batch, npdl_model

MEGA = 2**20
BATCHES = 16            # that take turns where each step has a new one


@dataclass
class Side:
    step: Callable
    synchronize: Callable
    memory: Callable
    elapsed: Callable
    forget: Callable
    share: str = "needed positions"         # of the work: what is computed


def turns(case, new):
    """Batches without end: the case's, or drawn ones in turn."""
    ready, rng = npdl_batch(case), np.random.default_rng(1)
    arrays = ready.inputs, ready.targets, ready.counted
    drawn = [[array[pick] for array in arrays] for pick in rng.integers(
        0, len(ready), (BATCHES if new else 0, len(ready)))] or [arrays]
    return itertools.cycle([Batch(*each, chunk=case.batch) for each in drawn])


def npdl_side(case, engine, new=False):
    """npdl under the backend that is chosen; `engine` is one of npdl_train.runs.engine.ENGINES."""
    engine = make_engine(engine, *npdl_model(case))
    batches, clip = turns(case, new), case.optimizer["clip"]
    pool = None if backend.is_host() else xp.get_default_memory_pool()
    engine.__enter__()

    def step():
        loss = engine.step(next(batches))
        if clip is not None:
            engine.clip(clip)
        engine.update()
        return loss

    def memory():
        if pool is None:
            return None
        with peak_memory(pool) as peak:
            step()
        own = sum(work.pool.total_bytes() for work in getattr(engine, "works", {}).values())
        return (peak.most + own) / MEGA

    def elapsed(steps):
        if pool is None:
            return None
        begin, end = xp.cuda.Event(), xp.cuda.Event()
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        end.synchronize()
        return xp.cuda.get_elapsed_time(begin, end) / steps

    def forget():
        engine.__exit__(None, None, None)
        if pool is not None:
            pool.free_all_blocks()

    return Side(step, backend.synchronize, memory, elapsed, forget,
                "all positions" if engine.name == "plain" else "needed positions")


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


def torch_model(case, captured, device):
    """PyTorch's model and optimizer of a case, its float32 products as CuPy's are."""
    import torch

    from . import torch_side as sides

    torch.set_float32_matmul_precision("high" if backend.tf32() else "highest")
    torch.backends.cudnn.allow_tf32 = backend.tf32()
    form = "nn.LSTM" if case.model == "lstm" else "sdpa"
    if captured and case.model == "gpt":
        form = "plain"                      # which knows what is needed
    model = sides.build_model(case, form).to(device)
    return model, sides.build_optimizer(model, case, "captured" if captured else "fused")


def torch_batches(case, new, device):
    """[[inputs, targets, counted]]: the one batch on the device, or `new` ones in pinned memory."""
    import torch

    def ready(array):
        array = torch.from_numpy(np.ascontiguousarray(array))
        return array.pin_memory() if new else array.to(device)

    return [[ready(array) for array in (batch.inputs, batch.targets, batch.counted)]
            for batch in itertools.islice(turns(case, new), BATCHES if new else 1)]


def torch_side(case, form="eager", new=False, device="cuda"):
    """PyTorch with its own attention or nn.LSTM and its fused AdamW; "captured" is its whole step,
    forward to update, as one CUDA graph, of the positions that are needed, "compiled" the same
    with torch.compile of its model."""
    import torch

    from .torch_side import reference

    captured = form != "eager"
    model, optimizer = torch_model(case, captured, device)
    last = 2 if captured and not case.is_text else None
    ready = torch_batches(case, new, device)
    batches, here = itertools.cycle(ready), [array.to(device).clone() for array in ready[0]]
    params, clip = list(model.parameters()), case.optimizer["clip"]
    forward = torch.compile(model) if form == "compiled" else model

    def work():
        inputs, targets, mask = here
        if last is not None:
            targets, mask = targets[:, -last:], mask[:, -last:]
        logits = forward(inputs) if last is None else forward(inputs, last=last)
        loss = (reference.next_token_loss(logits, targets) if case.is_text else
                reference.answer_loss(logits, targets, mask))
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimizer.step()
        return loss.detach()

    replay = graph_of(work, optimizer) if captured else None

    def step():
        if new:
            for place, array in zip(here, next(batches), strict=True):
                place.copy_(array, non_blocking=True)
        if replay is not None:
            return replay()
        optimizer.zero_grad(set_to_none=True)
        return work()

    def memory():
        if captured:                        # its counters do not see a graph's own pool
            return None
        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated() / MEGA

    def elapsed(steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps

    def forget():
        gc.collect()
        torch.cuda.empty_cache()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    return Side(step, synchronize, memory, elapsed, forget,
                "needed positions" if last or case.is_text else "all positions")


def graph_of(work, optimizer):
    """A function that repeats `work` as one CUDA graph and returns its loss."""
    import torch

    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(4):
            optimizer.zero_grad(set_to_none=True)
            work()
    torch.cuda.current_stream().wait_stream(beside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = work()

    def replay():
        graph.replay()
        return loss

    return replay
