"""Several files of counters: passes become one row per launch, parts stand below one another."""

from collections.abc import Sequence

from traceroof.core.dictionary import coded
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.kernel_time import runs_beside
from traceroof.ingest.passes import is_view, launches_of, metrics_of, shaped, united
from traceroof.ingest.roles import SEPARATE, SHARED, Mode, path_of, with_role


def combine_counters(recordings: Sequence[Recording], mode: Mode) -> Recording:
    """Passes become one row per launch, parts stand below one another, repeats stand beside."""
    clusters: list[list[Recording]] = []
    recordings = shaped(recordings)
    for one in recordings:
        for cluster in clusters:
            if _related(cluster[0], one, mode):
                cluster.append(one)
                break
        else:
            clusters.append([one])
    parts = [_cluster(cluster, mode) for cluster in clusters]
    if len(parts) == 1:
        return parts[0]
    _same_program(parts)
    return merge([with_role(one, "part") if _role(one) == "" else one for one in parts])


def _role(recording: Recording) -> str:
    return recording.sources[0].role


def _related(first: Recording, other: Recording, mode: Mode) -> bool:
    """Whether two counter files hold the same kernels: all of the smaller one's, or most."""
    if mode in ("passes", "repeats"):
        return True
    mine, theirs = (set(launches_of(one).counts()) for one in (first, other))
    shared = len(mine & theirs)
    if not shared:
        return False
    if shared < SHARED * min(len(mine), len(theirs)):
        raise TraceroofError(
            f"{path_of(other)} shares {shared} of {len(theirs)} kernels with {path_of(first)}: it is "
            "another program or another build",
            SEPARATE,
        )
    return True


def _cluster(cluster: Sequence[Recording], mode: Mode) -> Recording:
    if len(cluster) == 1:
        return cluster[0]
    metrics = [metrics_of(one) for one in cluster]
    sequences = [launches_of(one).keys for one in cluster]
    same = all(one == metrics[0] for one in metrics) and all(
        one == sequences[0] for one in sequences
    )
    if mode == "repeats" or (mode == "auto" and same and not all(map(is_view, cluster))):
        return runs_beside(cluster, "counters")
    return with_role(united(cluster), "pass")


def _same_program(parts: Sequence[Recording]) -> None:
    """Refuse parts whose files name different programs."""
    named: dict[str, Recording] = {}
    for one in parts:
        for name in coded(one.kernels["process_name"]).texts:
            named.setdefault(name.rpartition("/")[2], one)
    if len(named) > 1 and all(len(coded(one.kernels["process_name"]).texts) for one in parts):
        by_part = [set(coded(one.kernels["process_name"]).texts) for one in parts]
        if not set.intersection(*by_part):
            (first, one), (second, other), *_ = named.items()
            raise TraceroofError(
                f"{path_of(one)} profiles {first} and {path_of(other)} {second}: two programs",
                SEPARATE,
            )
