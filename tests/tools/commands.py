"""npdl's commands and scripts as functions of their arguments, which return the exit status."""

from experiments.train_gpt import main as train_gpt  # noqa: F401
from experiments.train_lstm import main as train_lstm  # noqa: F401
from experiments.train_seq2seq import main as train_seq2seq  # noqa: F401
from npdl.__main__ import main


def make_command(name):
    return lambda arguments: main([name, *arguments])


finetune, generate, ask, table = map(make_command, ("finetune", "generate", "ask", "table"))
