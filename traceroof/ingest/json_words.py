"""Why a document is no JSON, in words."""


def why(error: Exception) -> str:
    """What a decoder says; of depth it only says that Python's stack is full."""
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)
