"""`python -m npdl table` from a clone; npdl_train/commands/table.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("table")
