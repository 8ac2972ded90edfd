"""Check how a command handles invalid options: one line, status 2, and no file written."""


def run_and_get_status(main, arguments):
    """Return the exit status of a script's main function, which may also raise SystemExit."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return stop.code


def check_refused(main, arguments, mentioned, folder, capsys):
    """Check that it ends with status 2 and one line with `mentioned`, and makes no `folder`."""
    status = run_and_get_status(main, arguments)
    errors = capsys.readouterr().err
    assert status == 2
    assert len(errors.strip().splitlines()) == 1 and mentioned in errors, errors
    assert not folder.exists()
