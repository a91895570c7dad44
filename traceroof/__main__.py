"""The command ``traceroof``, also as ``python -m traceroof``."""

import signal
import sys


def main() -> None:
    """Run the command line."""
    # Until it listens, Ctrl-C ends it as the system does, without a traceback out of its imports.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from traceroof.cli.main import main as run

    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int) and _is_alone():
            _leave(end.code)
        raise


def _is_alone() -> bool:
    """Whether no thread, no process and no debugger has to be let go in order."""
    import threading

    return (
        "multiprocessing" not in sys.modules
        and threading.active_count() == 1
        and not sys.gettrace()
        and not sys.getprofile()
    )


def _leave(code: int) -> None:
    """End at once. What the program holds goes with it: to take millions of objects apart first is a
    tenth of the time in which a large file is diagnosed."""
    import atexit
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError, AttributeError):  # stdout may be closed, or full
        sys.stdout.flush()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    main()
