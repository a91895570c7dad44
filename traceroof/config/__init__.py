"""What the user set: files found and merged key by key, read into ``Settings``.

Of each key the first of these that has it is in force: an option, an environment variable,
``--config FILE``, the nearest ``traceroof.toml`` upwards from the working folder,
``[tool.traceroof]`` of the nearest ``pyproject.toml`` that has one, the default.
"""

from traceroof.config.files import load
from traceroof.config.settings import NONE, Accepted, Off, Settings

__all__ = ["NONE", "Accepted", "Off", "Settings", "load"]
