"""A Trainer makes a model, its optimizer and its task from settings, and updates the model."""

import math

from npdl.backend import make_rng, to_host, xp
from npdl.core import named_layers
from npdl.errors import InputError, NpdlError, describe
from npdl.files import LARGEST_NUMBER
from npdl.layers.dropout import Dropout
from npdl.schedule import schedule
from npdl.train.config import UserFunction
from npdl.train.engine import make_engine
from npdl.train.task import complete_config, make_model, make_optimizer, make_task

IN_EVERY_RECORD = ("step", "l2_norm", "lr")


class Diverged(NpdlError):
    """A loss or a parameter is no longer finite."""


class Trainer:
    """A model, its optimizer and its task, and the number of updates made so far.

    All random numbers depend only on (seed, step). So the state of a run is its parameters, the
    optimizer's moments and `step`, and no random generator has to be saved.

    base     {name: array}, parameters to start from
    metrics  {name: function}, where function(trainer) returns a number at every evaluation
    """

    def __init__(self, config, base=None, metrics=None):
        self.config = config = complete_config(config)
        self.task = make_task(config)
        self.model = make_model(config, self.task, base)
        self.optimizer = make_optimizer(config, self.model)
        self.learning_rate = make_schedule(config)
        threads = "threads" if config.pretrained is None else "blas_threads"
        self.engine = make_engine(config.engine, self.model, self.optimizer, config.target,
                                  **{threads: config.threads})
        self.step, self.metrics = 0, metrics or {}
        self.has_dropout = any(isinstance(layer, Dropout) and layer.rate > 0
                               for _, layer in named_layers(self.model))

    def update(self):
        """Make one training step on the next batch, and return the loss."""
        batch, lr = self.task.batch(self.step), self.learning_rate(self.step)
        rng = make_dropout_rng(self.has_dropout, self.config.seed, self.step)
        loss = self.engine.step(batch, lr, self.config.clip, rng)
        self.step += 1
        return loss

    def measure(self):
        """Return {name: number} of the task's measures and of the user's metrics.

        Raises InputError if a metric does not return a finite number, or if every
        record already has a number with this name.
        """
        record = self.task.measure(self.engine)
        for name, metric in self.metrics.items():
            if name in record or name in IN_EVERY_RECORD:
                raise InputError(f"metric {name!r}: each record has a number of this name already; "
                                 "choose another name")
            value = metric(self)
            if getattr(value, "shape", None) == ():
                value = value.item()
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"metric {name!r} is {value} at step {self.step}; return a finite "
                                 "number")
            if not isinstance(value, (int, float)) or (
                    isinstance(value, int) and abs(value) >= LARGEST_NUMBER):
                raise InputError(f"metric {name!r} has returned {describe(value)}; return a number")
            record[name] = value
        return record


def make_schedule(config):
    """Return the learning rate as a function of the step."""
    if isinstance(config.schedule, UserFunction):
        return config.schedule(config)
    return schedule(config.schedule, lr=config.lr, total=config.steps, warmup=config.warmup,
                    lr_min=config.lr_min)


def make_dropout_rng(has_dropout, seed, step):
    """Return the generator of a step's dropout masks. For a model without dropout, return None."""
    return make_rng(seed, step, 0, 2) if has_dropout else None


def parameter_l2_norm(optimizer):
    """Return the L2 norm of all trainable parameters together."""
    return float(xp.sqrt(sum((p.data * p.data).sum() for p in optimizer.params.values())))


def find_nonfinite_parameters(model):
    """Return the names of the trainable parameters that hold NaN or infinity."""
    names, params = zip(*model.params(), strict=True)
    tops = to_host(xp.stack([xp.abs(param.data).max() for param in params]))    # one wait on a GPU
    return [name for name, top in zip(names, tops, strict=True) if not math.isfinite(top)]
