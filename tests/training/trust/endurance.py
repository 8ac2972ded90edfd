"""Long runs: memory that stays flat, and a metrics file of a million evaluations."""

import json
import time

from npdl.training.config import Config
from npdl.training.curves import plot_curves
from npdl.training.loop import Trainer
from npdl.training.metrics import read_metrics
from npdl.training.summary import summarise
from tests.training.trust import Figure


def resident():
    """MiB of this process in memory."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def memory(steps, model):
    """MiB by which a process grows between a tenth of its steps and the last, evaluations and
    states for checkpoints included."""
    config = Config(model=model, p=7, width=16, heads=2, threads=2, steps=steps, eval_first=0,
                    eval_every=20, save_every=100, batch=16)
    trainer, seen = Trainer(config), {}

    def on_step():
        if trainer.step in (steps // 10, steps):
            seen[trainer.step] = resident()

    trainer.run(lambda record: None, lambda: trainer.state(), on_step)
    return seen[steps] - seen[steps // 10]


def metrics(folder, count):
    """Seconds of a processor to read `count` evaluations, and to summarise and draw them."""
    path = folder / "metrics.jsonl"
    record = {"train_loss": 0.5, "train_accuracy": 0.25, "validation_loss": 0.75,
              "validation_accuracy": 0.125, "l2_norm": 50.0, "lr": 1e-3}
    with open(path, "w") as file:
        for step in range(count):
            changing = {"step": step, **record, "train_loss": 1 / (1 + step % 1000)}
            file.write(json.dumps(changing) + "\n")
    began = time.process_time()
    records, torn = read_metrics(path)
    reading = time.process_time() - began
    assert len(records) == count and not torn
    summarise(records)
    plot_curves(records, folder / "curves.png", "a long run")
    drawing = time.process_time() - began - reading
    path.unlink()
    return reading, drawing


def measure(full, folder):
    steps, count = (20_000, 1_000_000) if full else (1_000, 50_000)
    grown = {model: memory(steps, model) for model in ("gpt", "lstm")}
    assert max(grown.values()) < 4, f"memory grew by {grown} MiB"
    reading, drawing = metrics(folder, count)
    assert reading + drawing < 30, (reading, drawing)
    return [
        Figure("Memory stays flat", f"a GPT and an LSTM over {steps:,} steps",
               " and ".join(f"{model.upper()} {max(0, value):.1f} MiB" for model, value
                            in grown.items()) + " more at the end than after a tenth"),
        Figure("Long metrics files stay usable", f"{count:,} evaluations",
               f"read in {reading:.1f} s of a processor, summarised and drawn in {drawing:.1f} s"),
    ]
