"""`python -m npdl ask` from a clone; npdl/scripts/ask.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("ask")
