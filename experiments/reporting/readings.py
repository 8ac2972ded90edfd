"""Readings of document 004's recipe: what its text leaves open, and the runs that decide it."""

import dataclasses

from npdl.training.config import Config

SEEDS = (0, 42)                     # the document's
FURTHER = (1, 2, 3)                 # for what those two leave open
WHOLE, SHORT = 10001, 3000          # steps of a run, and of one for the level of its losses
BOTH, LSTM, GPT = ("lstm", "gpt"), ("lstm",), ("gpt",)
STATED = Config(threads=1, save_every=2000, clip=None, init="torch", steps=WHOLE)

# name -> models, seeds, what differs from the recipe as the text states it
READINGS = {
    "as stated": (BOTH, SEEDS, {}),
    "clip at norm 1": (BOTH, (*SEEDS, *FURTHER), {"clip": 1.0}),
    "Glorot's gates": (LSTM, SEEDS[:1], {"init": "xavier"}),
    "Glorot's gates, clip at norm 1": (LSTM, (*SEEDS, *FURTHER), {"init": "xavier", "clip": 1.0}),
    "beta2 0.98": (GPT, SEEDS[:1], {"betas": (0.9, 0.98), "steps": SHORT}),
    "eps 1e-6": (GPT, SEEDS[:1], {"eps": 1e-6, "steps": SHORT}),
    "decay of matrices only": (GPT, SEEDS[:1], {"decay": "matrices", "steps": SHORT}),
    "weight decay 0.1": (GPT, SEEDS[:1], {"weight_decay": 0.1, "steps": SHORT}),
    "pre-norm": (GPT, SEEDS[:1], {"norm": "pre", "steps": SHORT}),
    "GPT-2's start": (GPT, SEEDS[:1], {"init": "gpt2", "steps": SHORT}),
    "decay in Adam's gradient": (GPT, SEEDS[:1], {"optimizer": "adam", "steps": SHORT}),
}


def runs_of(name, model):
    """The runs (Config) of a reading for one model, none if it is not one of its models."""
    models, seeds, settings = READINGS[name]
    return [dataclasses.replace(STATED, model=model, seed=seed, **settings)
            for seed in seeds if model in models]


def puzzle_runs():
    """The runs of all readings, each once."""
    return [config for name in READINGS for model in BOTH for config in runs_of(name, model)]
