"""`python -m npdl train-gpt` from a clone; npdl/scripts/train_gpt.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import script

    script("train-gpt")
