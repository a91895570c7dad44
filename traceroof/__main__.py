"""The command ``traceroof``, also as ``python -m traceroof``."""

import signal


def main() -> None:
    """Run the command line."""
    # Until it listens, Ctrl-C ends it as the system does, without a traceback out of its imports.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from traceroof.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
