"""`python -m npdl generate` from a clone; npdl_train/commands/generate.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("generate")
