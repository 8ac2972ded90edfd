"""`python -m npdl finetune` from a clone; npdl_train/commands/finetune.py has it."""

if __name__ == "__main__":
    from npdl.__main__ import start

    start("finetune")
