"""`python -m npdl ask` from a clone; npdl_train/commands/ask.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("ask")
