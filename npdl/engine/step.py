"""compile_step: a training step that is recorded once and then replayed.

    step = compile_step(model, SequenceLoss(), AdamW(model))
    for inputs, targets, loss_mask in batches:
        loss = step(inputs, targets, loss_mask)

The first call runs the layers and records them. Later calls replay the recording. If a shape or a
setting changes, the step is recorded again. If a step can't be recorded, the layers run in every
call, and one line on standard error gives the reason.
"""

import functools
import random
import sys
import traceback

import numpy as np

from npdl.backend import is_device_array, is_host, to_device, to_host
from npdl.core import map_nested, require_layers
from npdl.engine.c_build import CompilerError
from npdl.engine.recording import SKIPPED, Recorder
from npdl.engine.replay import Recording, is_replay_input
from npdl.engine.target import make_target
from npdl.engine.threads import ShardedStep
from npdl.engine.training import training_step
from npdl.errors import InputError

MOST_RECORDINGS = 8         # of a step; after more failed guards, the step is no longer recorded
CHANGED_VALUES = ("the operations of the step depend on a value that changes from call to call, "
                  "for example in an `if` or in float(x)")
CHANGED_ATTRIBUTES = ("each call gives an attribute another type or shape, or changes the items of "
                      "a list, tuple or dict, such as a list that gets longer")


def compile_step(model, loss, optimizer, *, max_norm=None, target="auto", threads=1,
                 share_prefixes=False):
    """Return a training step: the function step(inputs, *targets, lr=None, **options) -> loss.

    max_norm  gradients with a larger global norm are scaled down to this norm; None: no limit
    target    "c", "numpy", or "auto": C if there is a compiler, else NumPy; on a GPU, CUDA
    threads   the number of threads that share a batch (npdl.engine.threads)
    share_prefixes  True: if several sequences begin with the same tokens (a prefix), the prefix is
              computed once (npdl.engine.prefix). The model must be a GPT, GPT2 or LSTMLM without
              dropout. The arguments of the step are then (ids, targets, loss_mask, lr=None), where
              `loss_mask` is True for the targets that the loss reads.

    The arguments of the step:

    inputs    the argument of model.forward, or a tuple of its arguments
    targets   the arguments of loss.forward after the model's output
    lr        the learning rate of this step; None means the learning rate of the optimizer
    options   keyword arguments of model.forward, such as mask and rng
    """
    make = functools.partial(RecordedStep, target=target)
    require_layers("compile_step", [model, loss], "a model and a loss, which are Layers")
    updated = getattr(optimizer, "params", None)
    updated = map(id, updated.values()) if isinstance(updated, dict) else ()
    if {id(param) for _, param in model.params()}.isdisjoint(updated):
        raise InputError("compile_step: the optimizer has no parameter of this model; make an "
                         "optimizer of this model, such as AdamW(model)")
    if threads != 1 and not is_host():
        raise InputError(f"threads = {threads}: a batch is not split on a GPU; give threads=1")
    if threads != 1 or share_prefixes:
        recorded = ShardedStep(make, model, loss, optimizer, threads, share_prefixes)
    else:
        recorded = make(training_step, (model, loss, optimizer))

    def step(inputs, *targets, lr=None, **options):
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return recorded(inputs, targets, options, lr, max_norm)
    step.recorded = recorded
    return step


class RecordedStep:
    """A function whose first call is recorded, and whose later calls replay the recording.

    function    the function; it is called as function(*objects, *arguments)
    objects     models, losses and optimizers: all objects that the function reads or changes
    target      "auto", "c" or "numpy"; on a GPU only "auto", which then means CUDA
    print_note  a function that is called with each message; None: they are printed on stderr
    why_not     the reason why the step can't be recorded, or None
    """

    def __init__(self, function, objects, target="auto", print_note=None):
        self.function, self.objects = function, objects
        self.print_note = print_note or print_note_once
        self.target = make_target(target, self.print_note)
        self.recordings, self.varying, self.why_not = [], set(), None
        self._diverged, self._unusable = 0, 0       # recordings after a Diverged; unusable in a row
        self._why_unusable = CHANGED_VALUES

    def __call__(self, *arguments):
        if self.why_not is not None:
            return self.run_without_recording(arguments)
        if is_host() == (self.target.name == "cuda"):
            self._stop_recording("the backend has changed since the step was made; make a new step")
            return self.run_without_recording(arguments)
        if not is_host():
            arguments = map_arrays(arguments, to_host)
        key = make_recording_key(arguments)
        diverged = False
        for recording in list(self.recordings):
            if recording.key == key and recording.mirror.is_current():
                try:
                    return recording.replay(arguments)
                except Exception:           # Diverged, or an error that a plain step raises, too
                    diverged = True
        return self._record(key, arguments, diverged)

    def _record(self, key, arguments, diverged):
        """Run the step and record it. If it can't be recorded, run it without recording.

        `diverged` is True if a recording for this key exists, but its replay has failed.
        """
        if self._unusable > MOST_RECORDINGS or diverged and self._diverged > MOST_RECORDINGS:
            self._stop_recording(self._why_unusable)
            return self.run_without_recording(arguments)
        recorder = Recorder()
        state, python_state = np.random.get_state(), random.getstate()
        try:
            recording = Recording(self, key, recorder, arguments)
        except (CompilerError, KeyboardInterrupt):
            recorder.roll_back()
            raise
        except Exception as error:
            recorder.roll_back()
            if isinstance(error, InputError) and not is_host():
                raise               # a plain step on the GPU would not check the values
            np.random.set_state(state)
            random.setstate(python_state)
            answer = self.run_without_recording(arguments)      # may raise the same error
            self._stop_recording(f"{type(error).__name__}: {error}{describe_location(error)}")
            return answer
        if python_state != random.getstate() or not all(
                map(np.array_equal, state[1:3], np.random.get_state()[1:3])):
            self._stop_recording("it draws from the global random generator of NumPy or Python; "
                                 "give the step a generator as an argument")
        elif recording.lowered is not None:
            self.recordings = [recording, *self.recordings[:MOST_RECORDINGS - 1]]
        if recording.lowered is None:
            self._unusable += 1
            if not recording.mirror.keeps_structure:
                self._why_unusable = CHANGED_ATTRIBUTES
            np.random.set_state(state)
            random.setstate(python_state)
            # The step may keep an argument in an attribute. So it gets copies, as in a recording
            return self.run_without_recording(map_arrays(arguments, np.array))
        self._diverged, self._unusable = self._diverged + diverged, 0
        self._why_unusable = CHANGED_VALUES
        return recording.answer

    def run_without_recording(self, arguments):
        """Run the function without recording."""
        if not is_host():
            arguments = map_arrays(arguments, to_device)
        return self.function(*self.objects, *arguments)

    def _stop_recording(self, why):
        self.why_not = why
        self.print_note("the step can't be recorded and runs without the engine, which is slower: "
                        f"{why}")


def make_recording_key(arguments):
    """Describe the arguments in a text. Arguments with equal texts can use the same recording."""
    def describe(x):
        if isinstance(x, np.ndarray):
            return type(x), x.shape, x.dtype.str
        return type(x), None if is_replay_input(x) else x
    return repr(map_nested(describe, arguments))


def map_arrays(nested, function):
    """Return nested tuples, lists and dicts with function(x) in place of each array x."""
    return map_nested(lambda x: function(x) if isinstance(x, np.ndarray) or is_device_array(x)
                      else x, nested)


def describe_location(error):
    """Return " (file:line)" of the line of a layer or a step that led to an error, or ""."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((*SKIPPED, map_nested.__code__.co_filename))]
    return f" ({places[-1].filename}:{places[-1].lineno})" if places else ""


@functools.cache
def print_note_once(line):
    """Print a line on standard error. A later call with the same line prints nothing."""
    print(f"npdl.engine: {line}", file=sys.stderr)
