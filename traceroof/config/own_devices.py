"""GPUs that the device table does not have, and peaks for this once."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from traceroof.config.values import near, text
from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.hardware import device_lookup, devices
from traceroof.hardware.devices import Device


def checked_row(name: str, row: Any, origin: str) -> None:
    if not isinstance(row, dict):
        raise TraceroofError(f"{origin}: devices.{name} is not a table", f"write [devices.{name}]")
    columns = ("like", *(one for one in devices.COLUMNS if one != "name"))
    for key in row:
        if key not in columns:
            raise TraceroofError(f"{origin}: unknown key devices.{name}.{key}", near(key, columns))


def device_named(name: str, row: Mapping[str, Any], where: str) -> Device:
    """A GPU of the user's own: the columns of the table, those missing like another's."""
    given = {key: value for key, value in row.items() if key != "like"}
    like = row.get("like")
    base: dict[str, Any] = {"architecture": "unknown", "grade": "C"}
    if like is not None:
        known = device_lookup.find(text(like, where))
        if known is None:
            names = [one.name for one in devices.all_devices()]
            raise TraceroofError(f"{where}: like = {like!r} is not one GPU of the device table",
                                 near(str(like), names))  # fmt: skip
    elif "vendor" not in given:
        raise TraceroofError(f"{where} lacks vendor", "nvidia, amd or hygon, or a like = NAME")
    elif given["vendor"] not in ("nvidia", *devices.AMD):
        raise TraceroofError(f"{where}: vendor = {given['vendor']!r}", "nvidia, amd or hygon")
    else:
        known = None
    try:
        made = devices.device_of({
            **base, "vendor": known.vendor if known else None, "source": where.partition(":")[0],
            "wavefront": known.wavefront if known else 32, **given, "name": name,
        })  # fmt: skip
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise TraceroofError(f"{where} has a value of a wrong kind: {error}",
                             "the columns are those of `traceroof devices NAME`") from error  # fmt: skip
    if known is None:
        return made
    set_by = _FIELDS
    changed = {
        set_by.get(key, key): getattr(made, set_by.get(key, key))
        for key in ("name", "source", "grade", *given)
    }
    if "tflops" in given:
        changed["flops_per_s"] = {**known.flops_per_s, **made.flops_per_s}
    if "l2_mib" in given and "last_cache_mib" not in given:
        changed["last_cache_bytes"] = made.last_cache_bytes
    no_names: dict[str, Any] = {
        "aliases": (), "shared_names": (), "pci_device_ids": (),
        # What others measured on its model says nothing of one with other peaks.
        **({} if "tflops" not in given else {"attainable_flops_per_s": {}}),
        **({} if "bandwidth_gb_per_s" not in given else {"attainable_bytes_per_s": {}}),
    }  # fmt: skip
    return replace(known, **{**no_names, **changed})


# Column of a row -> field of a device, where they differ.
_FIELDS: Mapping[str, str] = {
    "boost_mhz": "boost_clock_hz",
    "memory_gib": "memory_bytes",
    "bandwidth_gb_per_s": "dram_bandwidth_bytes_per_s",
    "l2_mib": "l2_bytes",
    "last_cache_mib": "last_cache_bytes",
    "tflops": "flops_per_s",
    "attainable_tflops": "attainable_flops_per_s",
    "attainable_gb_per_s": "attainable_bytes_per_s",
}


#: The peaks that may be given for once: the bandwidth of the memory, and the dense rates.
PEAKS = ("bandwidth", *devices.DTYPES)

_RATE = regex.compile(
    r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([kKMGTP]?)(?:B|byte|FLOP|OP)?(?:S|/s)?",
    re.IGNORECASE,
)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def peaks_of(words: str) -> dict[str, float]:
    """``bandwidth=3350,bf16=989``: the peaks, per second.

    A number alone is GB/s for the bandwidth and TFLOP/s for the rest, as in the device table;
    ``3.35TB/s`` and ``989TFLOP/s`` say it. Raises TraceroofError for what is none.
    """
    found: dict[str, float] = {}
    for part in words.split(","):
        name, _, value = (one.strip() for one in part.partition("="))
        if name not in PEAKS:
            raise TraceroofError(
                f"--peak {part.strip()}: no peak is called {name}", near(name, PEAKS)
            )
        rate = _RATE.fullmatch(value)
        if rate is None or not float(rate[1]):
            raise TraceroofError(
                f"--peak {part.strip()}: {value!r} is not a rate",
                "write --peak bandwidth=3350,bf16=989: GB/s and TFLOP/s",
            )
        usual = "g" if name == "bandwidth" else "t"
        found[name] = float(rate[1]) * _PREFIX[(rate[2] or usual).lower()]
    return found
