"""Train an LSTM on sums modulo 31 (or other arithmetic, or a text) and watch it generalise.

The LSTM first memorises half of all equations a + b = r modulo 31. Thousands of steps later it also
solves the other half, often suddenly ("grokking"). By default it has two layers of width 128
and trains by AdamW with weight decay 1 for 10001 steps. With --text FILE it learns to continue a
text.

The run's folder holds its settings, metrics, curves.png, and the checkpoint that ask, generate,
plot and finetune read. Ctrl-C saves and stops; --resume continues with bitwise identical results.

  python experiments/train_lstm.py
  python experiments/train_lstm.py --p 97 --operator - --steps 3000 --out runs/minus
  python experiments/train_lstm.py --text plays.txt --out runs/plays
  python experiments/train_lstm.py --resume --out runs/minus
  python -m npdl ask runs/minus "5 - 7 ="
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script()              # Ctrl-C exits without a traceback

import sys

from npdl.backend import make_rng, to_device
from npdl.losses import SequenceLoss
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import clip_by_global_norm
from npdl.train.commands.train import run_script
from npdl.train.engine import make_engine
from npdl.train.initialise import initialise
from npdl.train.loop import make_dropout_rng, make_schedule
from npdl.train.run import Run
from npdl.train.task import make_optimizer, make_task


def train(config, **process):
    """Train an LSTM and return the script's exit status.

    config   every setting of the run, one for each option: config.lr is --lr (npdl.train.config)
    process  folder=, resume=, quiet= and for_steps=: what this process does with the run (Run)
    """
    # Data: equations, or windows of a text. A batch has inputs and targets, integers (B, S), and
    # the loss mask `loss_mask` (B, S), True where the loss counts a target. A batch depends only on
    # the seed and the step.
    data = make_task(config)
    data.load_data()                                    # reads the text, if there is one

    # Model and optimizer. Everything random comes from streams keyed by the seed and the step.
    rng = make_rng(config.seed, 0)
    model = LSTMLM(data.vocab_size, config.width, config.layers, bias=config.bias,
                   dropout=config.dropout, padding_id=data.padding_id, rng=rng, dtype=config.dtype)
    initialise(model, config.init, rng)                 # --init torch keeps the layers' values
    optimizer = make_optimizer(config, model)           # AdamW, unless --optimizer names another
    lr_at = make_schedule(config)                       # a function of the step
    loss_layer = SequenceLoss()

    def plain_update(batch, lr, max_norm, dropout_rng):
        """Make one update by npdl's layers; return the loss. `dropout_rng` draws the masks."""
        model.zero_grad()
        (logits, state), cache = model.forward(batch.inputs, rng=dropout_rng)  # logits (B, S, V)
        targets = to_device(batch.targets)              # onto the device of --backend
        loss_mask = to_device(batch.loss_mask)
        loss, loss_cache = loss_layer.forward(logits, targets, loss_mask)
        dlogits = loss_layer.backward(1.0, loss_cache)
        # This adds to every param.grad. The loss doesn't use the last state, so it has no gradient.
        model.backward(dlogits, cache)
        if max_norm is not None:
            clip_by_global_norm(optimizer.params.values(), max_norm)
        optimizer.step(lr)
        return loss

    # By default the same update is recorded once and replayed (npdl.engine), which is faster;
    # engine.step has the arguments of plain_update. With --engine plain, every layer can be
    # stepped through in a debugger.
    engine = make_engine(config.engine, model, optimizer, config.target, config.threads)
    update = plain_update if engine.name == "plain" else engine.step

    # The loop. The run saves its checkpoints between steps, resumes and stops on Ctrl-C. Inside the
    # `with`, the engine also limits the threads of NumPy's matrix products.
    with Run(config, model, optimizer, **process) as run, engine:
        for step in run.remaining_steps():
            lr = lr_at(step)
            dropout = make_dropout_rng(config.dropout, config.seed, step)    # None without dropout
            update(data.batch(step), lr, config.clip, dropout)
            if run.is_evaluation_due():
                # Loss and accuracy of both sets. The engine computes them as it does a step.
                run.write_record(data.measure(engine), lr)
        return run.finish(data)                 # writes curves and summary, prints the result


def main(arguments=None):
    """Read the options (--help lists them), call `train` and return its exit status."""
    return run_script(train, "lstm", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
