"""Texts without folders, users, hosts and tokens."""

import re
from collections.abc import Iterable

# Names that are everybody's, or words of the language.
_NOBODY = frozenset({"root", "user", "users", "admin", "home", "host", "localhost", "none", "main"})
_SHORTEST_NAME = 3
# A token is long and mixes letters and digits; a shorter value may be part of a kernel's name.
_SHORTEST_TOKEN = 16

_HOME = r"/(?:home|Users|export/home|usr/people)/[\w.@+-]+(?![\w.@+/-])"
# In JSON a slash may be escaped.
_PLACE = r"[\w.@+~%=,-]+"
_POSIX = rf"(?<![\w/.)\]>*&\\])(?:file://)?\\?/(?P<root>{_PLACE})\\?/(?:{_PLACE}\\?/)*(?=(?P<file>{_PLACE})?)"
_WINDOWS = r"\b[A-Za-z]:(?:\\\\?[^\\\s\"':*?<>|]+)+\\\\?(?=[^\\\s])"
_FOLDERS = re.compile(f"{_HOME}|{_POSIX}|{_WINDOWS}")
# Layers of a model are called /conv1/Conv too: a path begins where file systems are, or ends in a
# file.
_ROOTS = frozenset(
    [
        "afs",
        "app",
        "apps",
        "Applications",
        "bin",
        "boot",
        "cluster",
        "code",
        "content",
        "data",
        "dbfs",
        "dev",
        "dss",
        "efs",
        "etc",
        "fs",
        "fsx",
        "gpfs",
        "global",
        "gscratch",
        "home",
        "kaggle",
        "lib",
        "lib64",
        "Library",
        "lustre",
        "media",
        "mnt",
        "net",
        "nfs",
        "opt",
        "orcd",
        "p",
        "pfs",
        "private",
        "proc",
        "proj",
        "project",
        "projects",
        "root",
        "run",
        "sbin",
        "scratch",
        "shared",
        "snap",
        "srv",
        "storage",
        "sw",
        "sys",
        "system",
        "tmp",
        "u",
        "userdata",
        "Users",
        "usr",
        "var",
        "vol",
        "volume",
        "Volumes",
        "work",
        "workdir",
        "workspace",
        "workspaces",
    ]
)
_FILE = re.compile(
    r".*\.(?:py[cdi]?|so|so\.[\d.]+|cu|cuh|c|cc|cpp|cxx|h|hpp|rs|go|jl|f90|java|sh|json|ya?ml|toml|ini|cfg|conf"
    r"|txt|log|md|csv|tsv|sqlite|db|nsys-rep|qdrep|ncu-rep|bin|dat|npy|npz|pt|pth|ckpt|safetensors|onnx"
    r"|engine|plan|h5|hdf5|parquet|ptx|cubin|fatbin|exe|dll|out|ipynb|whl|gz|zip|tar)"
)


def _without(found: re.Match[str]) -> str:
    root = found["root"]
    if root and root not in _ROOTS and not _FILE.fullmatch(found["file"] or ""):
        return found[0]
    return ""


class Redactor:
    """Takes folders, names and tokens out of texts.

    names: users and hosts. values: what stood in the environment, of which tokens are looked for.
    """

    def __init__(self, names: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        words = {
            name for name in names if len(name) >= _SHORTEST_NAME and name.lower() not in _NOBODY
        }
        tokens = {value for value in values if _is_token(value)}
        parts = [re.escape(one) for one in sorted(tokens, key=len, reverse=True)]
        parts += [rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted(words, key=len, reverse=True)]
        self._names = re.compile("|".join(parts)) if parts else None
        self.changed = 0

    def __call__(self, text: str) -> str:
        """The text without them; file names stay."""
        found = _FOLDERS.sub(_without, text)
        if self._names is not None:
            found = self._names.sub("…", found)
        self.changed += found != text
        return found


def _is_token(value: str) -> bool:
    return (
        len(value) >= _SHORTEST_TOKEN
        and not re.search(r"[\s/\\]", value)
        and bool(re.search(r"\d", value) and re.search(r"[A-Za-z]", value))
    )
