"""Damage to the nodes of a JSON document, so that it stays JSON."""

import copy
import json
import math
import random
from typing import Any

from tests.mutate import mutate

#: What a node can hold that no profiler writes there.
ODD: tuple[Any, ...] = (
    None, True, "", "text", "NaN", "-1", "1e400", "9" * 40, 0, -1, 1.5, -1e30, 1e300, 2**63, -(2**63),
    2**64, float("inf"), float("nan"), [], {}, [1], [[]], {"a": 1}, "0x7f", "\x1b[2J", "\u202e",
)  # fmt: skip

Place = tuple[Any, Any]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The document after one to four damages to its nodes."""
    try:
        document = json.loads(data)
    except ValueError:
        return mutate(data, rng)
    for _ in range(rng.randint(1, 4)):
        document = _damage(document, rng)
    return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _damage(document: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return _everywhere(document, rng)
    place = pick(document, rng)
    if place is None:
        return document
    holder, key = place
    kind = rng.randrange(10)
    if kind < 3:
        holder[key] = rng.choice(ODD)
    elif kind == 3:
        del holder[key]
    elif kind == 4:
        other = pick(document, rng)
        if other is not None:
            taken = copy.deepcopy(other[0][other[1]])
            holder[key] = taken
    elif kind == 5:
        holder[key] = _as_another_type(holder[key], rng)
    elif kind == 6 and isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 20)))]
    elif kind == 7 and isinstance(holder, dict):
        holder[rng.choice((f"{key}2", str(key).upper(), "", "name", "args"))] = holder.pop(key)
    elif kind == 8:
        holder[key] = _another_number(holder[key], rng)
    elif isinstance(holder[key], list):
        _shuffle_or_cut(holder[key], rng)
    else:
        holder[key] = [holder[key]]
    return document


def pick(document: Any, rng: random.Random) -> Place | None:
    """A node, as (what holds it, its key); deep ones more often than their share."""
    place: Place | None = None
    at = document
    while isinstance(at, (dict, list)) and at:
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        place = at, key
        at = at[key]
        if rng.random() < 0.12:
            break
    return place


def _everywhere(document: Any, rng: random.Random) -> Any:
    """The same damage to a key of all objects of a list: a field of every event."""
    place = pick(document, rng)
    if place is None:
        return document
    name = next((k for k in (place[1],) if isinstance(k, str)), None) or rng.choice(
        ("dur", "ts", "pid", "args")
    )
    value, kind, every = rng.choice(ODD), rng.randrange(3), rng.choice((1, 1, 2, 7))
    count = 0
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if name in one:
                count += 1
                if count % every:
                    pass
                elif kind == 0:
                    one[name] = value
                elif kind == 1:
                    del one[name]
                else:
                    one[name] = _another_number(one[name], rng)
            waiting += one.values()
    return document


def _as_another_type(value: Any, rng: random.Random) -> Any:
    if isinstance(value, (int, float)):
        return rng.choice((str(value), [value], {"value": value}, bool(value)))
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return rng.choice((len(value), [value], {value: value}))
    return rng.choice((json.dumps(value), list(value) if value else [], 0))


def _another_number(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    whole = int(value) if math.isfinite(value) else 0
    return rng.choice((-value, value * 10, value / 1000, value + 1, value * 1e6, whole, 0))


def _shuffle_or_cut(listed: list[Any], rng: random.Random) -> None:
    kind = rng.randrange(3)
    if kind == 0:
        rng.shuffle(listed)
    elif kind == 1:
        del listed[rng.randrange(len(listed) + 1) :]
    else:
        del listed[: rng.randrange(len(listed) + 1)]
