"""Train a GPT on sums modulo 31 and watch it generalise; or on other arithmetic, or on a text.

From half of all equations a + b = r modulo 31 it memorises the answers. Thousands of steps later it
also solves the other half, often suddenly ("grokking"). By default it has two layers of width 128
with four heads and trains by AdamW with weight decay 1 for 10001 steps. With --text FILE it learns
to continue a text.

The run's folder holds its settings, metrics, curves.png, and the checkpoint that ask, generate,
plot and finetune read. Ctrl-C saves and stops; --resume continues, bitwise identical.

  python experiments/train_gpt.py
  python experiments/train_gpt.py --p 97 --operator - --steps 3000 --out runs/minus
  python experiments/train_gpt.py --text plays.txt --out runs/plays
  python experiments/train_gpt.py --resume --out runs/minus
  python -m npdl ask runs/minus "5 - 7 ="
"""

if __name__ == "__main__":
    from npdl.cli.console import start_script

    start_script()              # Ctrl-C is quiet from here on

import sys

from npdl.backend import stream, to_device
from npdl.losses import SequenceLoss
from npdl.models.gpt import GPT
from npdl.optim import clip_by_global_norm
from npdl.train.commands.train import run_script
from npdl.train.engine import make_engine
from npdl.train.initialise import initialise
from npdl.train.loop import dropout_rng, learning_rate
from npdl.train.run import Run
from npdl.train.task import make_optimizer, make_task


def train(config, **process):
    """Train a GPT as `config` describes (npdl.train.config); return the exit status."""
    # Data: equations, or windows of a text. data.batch(step) depends on nothing but the step.
    data = make_task(config)
    data.prepare()

    # Model and optimizer. Everything random comes from streams keyed by the seed and the step.
    rng = stream(config.seed, 0)
    model = GPT(data.vocab_size, config.width, config.layers, config.heads, config.multiplier,
                data.max_len, bias=config.bias, norm=config.norm, norm_bias=config.norm_bias,
                activation=config.activation, positions=config.positions, tied=config.tied,
                dropout=config.dropout, padding_id=data.padding_id, rng=rng, dtype=config.dtype)
    initialise(model, config.init, rng)
    optimizer = make_optimizer(config, model)           # AdamW, unless --optimizer names another
    lr_at = learning_rate(config)
    loss_layer = SequenceLoss()

    def plain_update(batch, lr, max_norm, rng):
        """Make one update by npdl's layers and return the loss."""
        model.zero_grad()
        logits, cache = model.forward(batch.inputs, rng=rng)    # (B, S, V)
        loss, loss_cache = loss_layer.forward(logits, to_device(batch.targets),
                                              to_device(batch.counted))
        dlogits = loss_layer.backward(1.0, loss_cache)
        model.backward(dlogits, cache)                  # adds to every param.grad
        if max_norm is not None:
            clip_by_global_norm(optimizer.params.values(), max_norm)
        optimizer.step(lr)
        return loss

    # By default the same update is recorded once and replayed (npdl.engine), which is faster. With
    # --engine plain, every layer can be stepped through in a debugger.
    engine = make_engine(config.engine, model, optimizer, config.target, config.threads)
    update = plain_update if engine.name == "plain" else engine.step

    # The loop. The run saves its checkpoints between steps, resumes and stops on Ctrl-C.
    with Run(config, model, optimizer, **process) as run, engine:
        for step in run.steps():
            lr = lr_at(step)
            rng = dropout_rng(config.dropout, config.seed, step)
            update(data.batch(step), lr, config.clip, rng)
            if run.evaluation_due():
                run.record(data.measure(engine), lr)
        return run.finish(data)                         # curves, summary, and what it prints


def main(arguments=None):
    """Run the script and return its exit status."""
    return run_script(train, "gpt", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
