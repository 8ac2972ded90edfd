"""npdl's commands as functions of their arguments, which return the exit status."""

from npdl.__main__ import main


def train_gpt(arguments):
    return main(["train-gpt", *arguments])


def finetune(arguments):
    return main(["finetune", *arguments])


def generate(arguments):
    return main(["generate", *arguments])


def ask(arguments):
    return main(["ask", *arguments])


def table(arguments):
    return main(["table", *arguments])
