"""The pages on the study, from a clone; experiments/study/report.py has it."""

if __name__ == "__main__":
    import sys

    from npdl.console import begin

    begin()                                 # Ctrl-C is quiet from here on
    from experiments.study.report import main

    sys.exit(main())
