"""What can go wrong in a way that the user can act on, and the exit codes that say so."""

DONE = 0
GATE_FAILED = 1
COULD_NOT = 2


class TraceroofError(Exception):
    """Something that traceroof could not do, said in one sentence.

    Raised at the place that knows the cause; caught once, in the command line, which prints
    ``message`` and ``hint`` and exits with 2 (``COULD_NOT``). Never wrap one in another.

    message: what is wrong, naming the file or run.
    hint: what the user can do about it; empty when there is nothing to add.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type["TraceroofError"], tuple[str, str]]:
        # Another process raises it: with its hint.
        return type(self), (self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message
