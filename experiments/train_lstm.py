"""`python -m npdl train-lstm` from a clone; npdl/scripts/train_lstm.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import script

    script("train-lstm")
