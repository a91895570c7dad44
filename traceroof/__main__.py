"""``python -m traceroof`` is the command ``traceroof``."""

from traceroof.cli import main

main()
