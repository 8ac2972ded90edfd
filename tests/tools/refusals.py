"""Check how a command handles invalid options: one line and status 2."""


def run_and_get_status(main, arguments):
    """Return the exit status of a script's main function, which may also raise SystemExit."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return stop.code


def check_refused(main, arguments, mentioned, capsys):
    """Check that `main` prints only one line of errors, with `mentioned`, and gives status 2."""
    status = run_and_get_status(main, arguments)
    shown = capsys.readouterr()
    assert status == 2 and not shown.out
    assert len(shown.err.strip().splitlines()) == 1 and mentioned in shown.err, shown.err
