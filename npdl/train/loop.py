"""A Trainer makes a model, its optimizer and its task from settings, and updates the model."""

import math

from npdl.backend import stream, to_device, to_host, xp
from npdl.core import named_layers
from npdl.errors import InputError, NpdlError, described
from npdl.files import LARGEST_NUMBER
from npdl.layers.dropout import Dropout
from npdl.schedule import schedule
from npdl.train.engine import make_engine
from npdl.train.task import make_model, make_optimizer, make_task, resolved


class Diverged(NpdlError):
    """A loss or a parameter is no longer finite."""


class Trainer:
    """A model, its optimizer and its task, and the number of updates made so far.

    Everything random is keyed by (seed, step). So the state of a run is its parameters, the
    optimizer's moments and `step`; no generator has to be saved.

    base     parameters to start from (make_model)
    metrics  {name: function(trainer) -> a number}, recorded at every evaluation
    engine   another engine than the settings'
    """

    def __init__(self, config, base=None, metrics=None, engine=None):
        self.config = config = resolved(config)
        self.task = make_task(config)
        self.model = make_model(config, self.task, base)
        self.optimizer = make_optimizer(config, self.model)
        self.learning_rate = learning_rate(config)
        self.engine = make_engine(engine or config.engine, self.model, self.optimizer,
                                  config.target, **threads_of(config))
        self.step, self.metrics = 0, metrics or {}
        self.has_dropout = any(isinstance(layer, Dropout) and layer.rate > 0
                               for _, layer in named_layers(self.model))

    def update(self):
        """Make one step of training on the next batch; return the loss."""
        batch, lr = self.task.batch(self.step), self.learning_rate(self.step)
        rng = dropout_rng(self.has_dropout, self.config.seed, self.step)
        loss = self.engine.step(batch, lr, self.config.clip, rng)
        self.step += 1
        return loss

    def evaluate(self):
        """Return the record of this step: losses, accuracies, the parameters' norm, lr."""
        return {"step": self.step, **self.task.measure(self.engine),
                "l2_norm": l2_norm(self.optimizer), "lr": self.learning_rate(max(0, self.step - 1))}

    def own_metrics(self):
        """Return {name: number} of the metrics of one's own."""
        return {name: _as_number(name, metric(self)) for name, metric in self.metrics.items()}

    def state(self):
        """Return (arrays, meta) for a checkpoint."""
        return get_state(self.config, self.model, self.optimizer, self.step)

    def load_state(self, arrays, meta):
        """Restore the state that `state` returned."""
        set_state(self.config, self.model, self.optimizer, arrays, meta)
        self.step = meta["step"]


def learning_rate(config):
    """Return the learning rate as a function of the step."""
    return schedule(config.schedule, lr=config.lr, total=config.steps, warmup=config.warmup,
                    lr_min=config.lr_min)


def dropout_rng(has_dropout, seed, step):
    """Return the generator of a step's dropout masks, or None without dropout."""
    return stream(seed, step, 0, 2) if has_dropout else None


def threads_of(config):
    """Return the threads of an engine, {name: number}: a real model's are BLAS's."""
    return {"threads" if config.pretrained is None else "blas_threads": config.threads}


def get_state(config, model, optimizer, step):
    """Return (arrays, meta) for a checkpoint.

    It has a real model's trained parameters only; the others are in the model's own folder.
    """
    arrays = {f"param/{name}": to_host(param.data).copy()
              for name, param in model.params(frozen=config.pretrained is None)}
    moments = optimizer.state_dict()
    updates = moments.pop("steps")
    for moment, values in moments.items():
        arrays.update({f"{moment}/{name}": value for name, value in values.items()})
    return arrays, {"step": step, "updates": updates}


def set_state(config, model, optimizer, arrays, meta):
    """Restore parameters and moments from what `get_state` returned."""
    parts = {"param": {}, **{moment: {} for moment in optimizer.moments}}
    for key, value in arrays.items():
        part, name = key.split("/", 1)
        parts[part][name] = value
    given = parts.pop("param")
    for name, param in model.params(frozen=config.pretrained is None):
        param.data[...] = to_device(given[name])
    optimizer.load_state_dict({"steps": meta["updates"], **parts})


def l2_norm(optimizer):
    """Return the norm of all trainable parameters."""
    return float(xp.sqrt(sum((p.data * p.data).sum() for p in optimizer.params.values())))


def nonfinite_parameters(model):
    """Return the names of the trainable parameters that hold NaN or infinity."""
    names, params = zip(*model.params(), strict=True)
    tops = to_host(xp.stack([xp.abs(param.data).max() for param in params]))    # one wait on a GPU
    return [name for name, top in zip(names, tops, strict=True) if not math.isfinite(top)]


def _as_number(name, value):
    """Return a metric of one's own as a record holds it."""
    if getattr(value, "shape", None) == ():
        value = value.item()
    if not isinstance(value, (int, float)) or (
            isinstance(value, int) and abs(value) >= LARGEST_NUMBER):
        raise InputError(f"metric {name!r}: has returned {described(value)}; return a number")
    return value
