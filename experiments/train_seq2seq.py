"""`python -m npdl train-seq2seq` from a clone; npdl_train/commands/train.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("train-seq2seq")
