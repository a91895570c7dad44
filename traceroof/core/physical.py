"""The physical GPU behind the numbers that programs give it."""


def gpu_number(*told: object) -> int:
    """A number for the GPU that is told by these: its uuid, or the machine and its number there.

    The same in every file that tells the same; 56 bits, so that different GPUs differ.
    """
    import hashlib  # loads OpenSSL

    text = "/".join(str(one) for one in told)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())
