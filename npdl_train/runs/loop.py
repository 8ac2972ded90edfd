"""The training loop: update, evaluate, save; stop at any moment, go on bit for bit."""

import functools
import math
import signal

import numpy as np

from npdl import optim
from npdl.backend import is_host, stream, to_device, to_host, xp
from npdl.errors import InputError, NpdlError, described
from npdl.schedule import schedule
from npdl_train.fast.flat_parameters import AdamWInPlace
from npdl_train.runs.engine import PlainEngine, make_engine
from npdl_train.runs.nonfinite import FirstNonfinite
from npdl_train.runs.size import check_file, check_memory
from npdl_train.runs.task import make_model, make_task, resolved


class Diverged(NpdlError):
    """A loss or a parameter that is no longer finite."""


class Trainer:
    """A model, its optimizer and its task, and the number of updates made so far.

    Everything random is keyed by (seed, step), so the state of a run is its parameters, the
    optimizer's moments and `step`: nothing else has to be saved. `base` holds parameters to
    start from (make_model). `path` is a checkpoint that the state is to be loaded from: nothing
    is made that it is too small for. `metrics` are {name: function(trainer) -> a number}, recorded
    at every evaluation beside the others. Raises InputError where memory cannot suffice.
    """

    def __init__(self, config, base=None, path=None, metrics=None):
        self.config = config = resolved(config)
        self.task = make_task(config)
        check_memory(config, self.task)
        if path is not None:
            check_file(config, self.task, path)
        self.model = make_model(config, self.task, base)
        if config.decay == "matrices":
            optim.matrices_only(self.model)
        self.optimizer = make_optimizer(config, self.model)
        self.learning_rate = schedule(config.schedule, lr=config.lr, total=config.steps,
                                      warmup=config.warmup, lr_min=config.lr_min)
        plain_threads = 1 if config.pretrained is None else config.threads
        self.engine = make_engine(config.engine, self.model, self.optimizer, config.threads,
                                  plain_threads)
        self.step, self.metrics = 0, metrics or {}
        self.check = False      # every layer's numbers at every step: slower, the same results

    def update(self):
        """One step of training: the gradients of a batch, then the optimizer."""
        config, batch = self.config, self.task.batch(self.step)
        rng = functools.partial(stream, config.seed, self.step, 0, 2) if config.dropout else None
        if self.check:
            self._check_layers(batch, rng)
        self.engine.step(batch, rng)
        if config.clip is not None:
            self.engine.clip(config.clip)
        self.engine.update(self.learning_rate(self.step))
        self.step += 1
        if self.check:
            self.check_finite()

    def _check_layers(self, batch, rng):
        """The textbook's step on this batch, until a layer makes NaN or infinity."""
        with FirstNonfinite(self.model) as first:
            PlainEngine(self.model, self.optimizer).step(batch, rng)
        if first.found is not None:
            raise Diverged(f"step {self.step + 1}: {first.found}; the last checkpoint is kept; "
                           "try a lower --lr or --clip 1.0")

    def evaluation_due(self):
        """True at steps 1..eval_first, at every multiple of eval_every, and at the last."""
        config, step = self.config, self.step
        return step <= config.eval_first or step % config.eval_every == 0 or step == config.steps

    def evaluate(self):
        """The record of this step. Raises Diverged when a number in it is not finite."""
        record = {"step": self.step, **self.task.measure(self.engine)}
        squares = [(array * array).sum() for array in self.learned()]
        record["l2_norm"] = float(xp.sqrt(sum(squares)))    # finite where every parameter is
        record["lr"] = self.learning_rate(max(0, self.step - 1))
        for name, metric in self.metrics.items():
            record[name] = recorded(name, metric(self), record)
        odd = next((key for key, value in record.items() if not math.isfinite(value)), None)
        if odd:
            self.check_finite(f", {odd} is {record[odd]}")
        return record

    def learned(self):
        """The arrays of all that is learned: on a GPU one, where the engine has it so."""
        flat = None if is_host() else getattr(self.engine, "flat", None)
        return [flat.data] if flat else [p.data for p in self.optimizer.params.values()]

    def check_finite(self, more=""):
        """Raise Diverged, naming the first parameter at fault, unless every number is finite."""
        names, params = zip(*self.model.params(), strict=True)
        tops = to_host(xp.stack([xp.abs(param.data).max() for param in params]))    # one wait
        bad = [name for name, top in zip(names, tops, strict=True) if not math.isfinite(top)]
        if bad or more:
            what = f"{bad[0]} (and {len(bad) - 1} more) not finite" if bad else "parameters finite"
            if bad and self.check:
                what += ", made by the optimizer's update: the layers' numbers were finite"
            advice = "" if self.check else ", or --resume --check to see which operation did it"
            raise Diverged(f"step {self.step}: {what}{more}; the last checkpoint is kept; "
                           f"try a lower --lr or --clip 1.0{advice}")

    def state(self):
        """(arrays, meta) for a checkpoint: of a real model what is trained, the rest is in its
        folder."""
        everything = self.config.pretrained is None
        arrays = {f"param/{name}": to_host(param.data).copy()
                  for name, param in self.model.params(frozen=everything)}
        moments = self.optimizer.state_dict()
        updates = moments.pop("steps")
        for moment, values in moments.items():
            arrays.update({f"{moment}/{name}": value for name, value in values.items()})
        return arrays, {"step": self.step, "updates": updates}

    def load_state(self, arrays, meta):
        """Take back what `state` returned."""
        parts = {"param": {}, **{moment: {} for moment in self.optimizer.moments}}
        for key, value in arrays.items():
            part, name = key.split("/", 1)
            parts[part][name] = value
        given, everything = parts.pop("param"), self.config.pretrained is None
        for name, param in self.model.params(frozen=everything):
            param.data[...] = to_device(given[name])
        self.optimizer.load_state_dict({"steps": meta["updates"], **parts})
        self.step = meta["step"]

    def run(self, on_record, on_save, on_step=lambda: None, for_steps=None, first=False):
        """Train to config.steps, or for `for_steps` more. Returns False if a signal asked to stop
        before that.

        on_record(record) is called at every evaluation, on_save() at every checkpoint that is
        due and at the end, on_step() after every update; `first`, both before the first. Raises
        Diverged when a loss or a parameter stops being finite; nothing of it is saved.
        """
        last = min(self.config.steps, self.step + (for_steps or self.config.steps))
        with StopSignals() as stop, self.engine, unwarned():
            if first:
                on_record(self.evaluate())
                on_save()
            while self.step < last:
                self.update()
                on_step()
                if self.evaluation_due():
                    on_record(self.evaluate())
                asked = stop.asked          # once: what comes after this is the next step's
                if asked or self.step % self.config.save_every == 0 or self.step == last:
                    self.check_finite()
                    on_save()
                if asked:
                    break
        return self.step == last


def recorded(name, value, record):
    """A metric of one's own as a record holds it; InputError for what is no number, and for a name
    that the record has."""
    if name in record:
        raise InputError(f"metric {name!r}: every record has npdl's own; choose another name")
    if getattr(value, "shape", None) == ():
        value = value.item()
    if not isinstance(value, (int, float)):
        raise InputError(f"metric {name!r}: has returned {described(value)}; return a number")
    return value


def unwarned():
    """A context without NumPy's warnings of overflow: the loop looks for numbers that are not
    finite itself, and says where they are."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def make_optimizer(config, model):
    """The optimizer that the settings describe."""
    if config.optimizer == "sgd":
        return optim.SGD(model, config.lr, momentum=config.momentum,
                         weight_decay=config.weight_decay)
    adamw = optim.AdamW if config.pretrained is None else AdamWInPlace
    kind = adamw if config.optimizer == "adamw" else optim.Adam
    return kind(model, config.lr, betas=config.betas, eps=config.eps,
                weight_decay=config.weight_decay)


class StopSignals:
    """While active, Ctrl-C, SIGTERM and SIGHUP (a terminal closes) only set `asked`; a second
    Ctrl-C interrupts. A hangup that is ignored, as by nohup, stays so."""

    def __init__(self):
        self.asked = False
        self._before = {}

    def __enter__(self):
        hangup = getattr(signal, "SIGHUP", signal.SIGTERM)
        ignored = signal.getsignal(hangup) == signal.SIG_IGN
        for number in (signal.SIGINT, signal.SIGTERM, *(() if ignored else (hangup,))):
            try:
                self._before[number] = signal.signal(number, self._stop)
            except ValueError:      # not the main thread: whoever started it handles signals
                break
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number, frame):
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
