"""The engine, which records a training step of npdl's layers once and then replays it.

    step = compile_step(model, SequenceLoss(), AdamW(model))
    loss = step(inputs, targets, loss_mask)

`recording` makes a list of the operations of a step, the *recording*. `simplify` and `schedule`
arrange the operations, and `arena` plans their memory. A *target* (`target`) translates the
operations into calls of NumPy, C or CUDA functions. docs/engine.md explains the engine with an
example.
"""

from npdl.engine.c_build import CompilerError
from npdl.engine.recorded_array import Unsupported
from npdl.engine.step import RecordedStep, compile_step
from npdl.engine.training import training_step

__all__ = ["CompilerError", "RecordedStep", "Unsupported", "compile_step", "training_step"]
