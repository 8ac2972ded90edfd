"""What a wrong command line must lead to: one line, status 2, nothing written."""


def status_of(command, arguments):
    """The exit status of a script's main function, which may return it or raise SystemExit."""
    try:
        return command(arguments)
    except SystemExit as stop:
        return stop.code


def check_refused(command, arguments, mentioned, folder, capsys):
    """It ends with status 2 and one line that has `mentioned`, and makes no `folder`."""
    status = status_of(command, arguments)
    errors = capsys.readouterr().err
    assert status == 2
    assert len(errors.strip().splitlines()) == 1 and mentioned in errors, errors
    assert not folder.exists()
