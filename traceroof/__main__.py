"""``python -m traceroof`` is the command ``traceroof``."""

from traceroof.cli.main import main

main()
