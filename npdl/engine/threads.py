"""Split a batch into shards, one for each thread. Each shard has its own recording and gradients.

    step = compile_step(model, loss, optimizer, threads=2)

A replay consists of a few hundred calls that release the interpreter's lock, so two threads compute
at the same time. The mean loss of a batch is the mean of the losses of its shards, weighted by
their sizes. So the upstream gradient of a shard's loss is the shard's fraction of the batch.
The gradients are summed in the order of the shards, so the results are bitwise identical each time.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace

import numpy as np

from npdl.core import map_nested
from npdl.engine.prefix import PrefixRowsCache, make_prefix_model
from npdl.engine.recorded_array import Unsupported
from npdl.engine.state import Mirror, is_random_generator
from npdl.engine.training import set_prefix_gradients, set_shard_gradients, sum_gradients_and_update
from npdl.errors import InputError
from npdl.options import require_positive


class ShardedStep:
    """A training step in several threads. make(function, objects) returns a RecordedStep."""

    def __init__(self, make, model, loss, optimizer, threads, share_prefixes=False):
        require_positive(threads=threads)
        ignores = getattr(loss, "ignored", None) is not None
        if threads > 1 and (ignores or getattr(loss, "average", "") == "token"
                            or getattr(loss, "reduction", "mean") != "mean"
                            or hasattr(loss, "class_weights")):
            raise InputError(f"threads = {threads}: this loss is not the mean of the losses of the "
                             "sequences; give threads=1, or a loss with reduction='mean', "
                             "average='sample' and no ignored target")
        self._make, self.model, self.loss, self.optimizer = make, model, loss, optimizer
        if share_prefixes:
            make_prefix_model(model)                # raises InputError for any other model
        self._prefixes = [PrefixRowsCache() for _ in range(threads)] if share_prefixes else None
        self.threads, self._process, self._running, self._checked = threads, None, [], False

    def _prepare_shards(self):
        """Make the threads and replicas; make new ones after a fork or a change of the model."""
        wait(self._running)                     # of a step that was interrupted
        if self._process == os.getpid() and self._watched.is_current():
            return

        def raise_for_generator(generator):
            raise Unsupported("threads can't draw from one generator")
        no_recorder = SimpleNamespace(wrap_array=lambda array, buffer_role: array,
                                      wrap_generator=raise_for_generator)
        self._watched = Mirror(no_recorder, set())      # only detects changes of the model
        try:
            self._watched.copy((self.model, self.loss) if self.threads > 1 else ())
            self._watched.refuse_ids()
        except Unsupported as error:
            raise InputError(f"threads = {self.threads}: the model has a part that cannot be "
                             "copied for each thread; give threads=1") from error
        self.models = [self.model, *(self.model.replica() for _ in range(self.threads - 1))]
        function = set_shard_gradients if self._prefixes is None else set_prefix_gradients
        self.shards = [self._make(function, (model, self.loss)) for model in self.models]
        self.update = self._make(sum_gradients_and_update, (self.models, self.optimizer))
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1), thread_name_prefix="npdl-shard")
        self._process = os.getpid()

    def __call__(self, inputs, targets, options, lr, max_norm):
        self._prepare_shards()
        try:
            return self._run_shards(inputs, targets, options, lr, max_norm)
        except InputError:          # its shapes may be a shard's; show those of the batch
            set_shard_gradients(self.model, self.loss, 1.0, inputs, targets, options)
            raise

    def _run_shards(self, inputs, targets, options, lr, max_norm):
        B = len(inputs[0])
        count = max(1, min(self.threads, B))
        ends = [B * i // count for i in range(count + 1)]
        rng, rngs, jobs = options.get("rng"), [], []
        for i in range(count):
            part = slice(ends[i], ends[i + 1])
            others = {name: value for name, value in options.items() if name != "rng"}
            arguments = [slice_batch(nest, part, B) for nest in (inputs, targets, others)]
            if rng is not None:
                rngs.append(copy.deepcopy(rng))
                arguments[2]["rng"] = ShardGenerator(rngs[i], part, B)
            if self._prefixes is not None:
                arguments = self._prefixes[i].get_prefix_rows(self.model, *arguments)
            jobs.append(((part.stop - part.start) / B, *arguments))
        for replica in self.models[count:]:
            replica.zero_grad()
        self._running = [self._pool.submit(step, *job)
                         for step, job in zip(self.shards[1:], jobs[1:], strict=False)]
        try:
            loss = self.shards[0](*jobs[0])         # in this thread
        finally:
            wait(self._running)
        losses = [loss, *(future.result() for future in self._running)]
        if rng is not None:
            rng.bit_generator.state = rngs[0].bit_generator.state
        self._check_no_other_state_written()
        self.update(lr, max_norm)
        return sum(losses[1:], losses[0])

    def _check_no_other_state_written(self):
        """Raise InputError if a shard changes state other than gradients (running statistics)."""
        if self._checked or self.threads == 1:
            return
        self._checked = True
        changed = not self._watched.is_current()        # for example, a cache that self keeps
        for step, model in zip(self.shards, self.models, strict=True):
            gradients = {id(param.grad) for _, param in model.params()}
            written = [op.output.buffer for recording in step.recordings
                       for op in recording.operations if op.output is not None]
            if changed or any(
                    b.role == "state" and id(b.array) not in gradients for b in written):
                raise InputError(f"threads = {self.threads}: the model's forward changes state "
                                 "such as running statistics; give threads=1")


class ShardGenerator:
    """The random generator of a shard (the part of a batch that one thread computes).

    It draws for the whole batch and returns the shard's part, so that the numbers do not depend on
    the number of threads.
    """

    def __init__(self, generator, part, B):
        self.generator, self.part, self.B = generator, part, B
        self.bit_generator = generator.bit_generator

    def __getattr__(self, name):
        raise AttributeError(f"with several threads, a model may call rng.random, but not "
                             f"rng.{name}; give threads=1")

    def random(self, shape, dtype=np.float64):
        """Return numbers in [0, 1) with the shape `shape`; its first axis counts the sequences."""
        shape = shape if isinstance(shape, tuple) else (shape,)
        if shape[0] != self.part.stop - self.part.start:
            raise InputError(f"rng.random({shape}): with several threads, the first axis must "
                             "count the sequences of the batch; give threads=1")
        return self.generator.random((self.B, *shape[1:]), dtype)[self.part]


def slice_batch(nested, part, B):
    """Return a copy of nested arguments, with x[part] in place of each array x of length B."""
    def cut_array(x):
        if is_random_generator(x):
            raise InputError("with several threads, give a generator only as rng=..")
        return x[part] if isinstance(x, np.ndarray) and x.ndim and len(x) == B else x
    return map_nested(cut_array, nested)
