"""All runs of the study, from a clone; experiments/study/launch.py has it."""

if __name__ == "__main__":
    import sys

    from npdl_train.console import start_script

    start_script()                                 # Ctrl-C is quiet from here on
    from experiments.study.launch import main

    sys.exit(main())
