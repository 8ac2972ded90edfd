"""The engine, which records a training step of npdl's layers once and then replays it.

    step = compile_step(model, SequenceLoss(), AdamW(model))
    loss = step(inputs, targets, counted)

`recording` notes the operations of a step, `simplify` and `schedule` arrange them, `arena` plans
their memory, and a target (`numpy_target`, `c_target`, `cuda_target`) lowers them to calls.
docs/engine.md has an explanation and an example. The modules of the library don't import the
engine.
"""

from npdl.engine.c_build import CompilerError
from npdl.engine.recorded_array import Unsupported
from npdl.engine.step import RecordedStep, compile_step
from npdl.engine.training import training_step

__all__ = ["CompilerError", "RecordedStep", "Unsupported", "compile_step", "training_step"]
