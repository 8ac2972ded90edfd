"""npdl's commands and scripts as functions of their arguments, which return the exit status."""

from experiments.train_gpt import main as train_gpt  # noqa: F401
from experiments.train_lstm import main as train_lstm  # noqa: F401
from experiments.train_seq2seq import main as train_seq2seq  # noqa: F401
from npdl.__main__ import main


def finetune(arguments):
    return main(["finetune", *arguments])


def generate(arguments):
    return main(["generate", *arguments])


def ask(arguments):
    return main(["ask", *arguments])


def table(arguments):
    return main(["table", *arguments])
