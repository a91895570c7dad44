"""Where launches come from: modules put together over layers, ranges, operators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from traceroof.core.kernel_table import kernel_table
from traceroof.kernels.places import NOWHERE, Place, Places, places_of
from traceroof.kernels.variants import of_rows

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "torch"


def places(
    paths: list[str | None],
    operators: list[str | None] | None = None,
    durations: list[int | None] | None = None,
) -> Places:
    count = len(paths)
    columns: dict[str, list[Any]] = {
        "kind": ["kernel"] * count,
        "kernel_name": ["k"] * count,
        "module_path": paths,
        "operator": operators or [None] * count,
        "launch_count": [1] * count,
        "duration_ns": durations or [10] * count,
    }
    return places_of(of_rows(kernel_table(columns)), np.zeros(count, dtype=np.int64))


@pytest.mark.parametrize("home", ["/home/jdoe42", "/Users/jdoe42", "/root"])
def test_a_line_of_the_program_does_not_tell_who_ran_it(home: str) -> None:
    columns = {
        "kernel_name": ["k"], "duration_ns": [10], "source_line": [f"{home}/train.py(3): main"],
    }  # fmt: skip
    found = places_of(of_rows(kernel_table(columns)), np.zeros(1, dtype=np.int64))
    assert found.place(found.weights(found.rows_of(0))).source == "~/train.py(3): main"


def where(paths: list[str | None], **more: Any) -> Place:
    found = places(paths, **more)
    return found.place(found.weights(found.rows_of(0)))


@pytest.mark.parametrize(
    ("paths", "module"),
    [
        (["Net_0"], "Net"),
        (["Net_0 > Linear_1"], "Linear[1]"),
        ([f"Net_0 > Layer_{n} > Norm_{2 * n}" for n in range(24)], "Layer[0-23].Norm"),
        # Norms 0 and 1 of each layer are one line of code.
        (["M_0 > L_0 > N_0", "M_0 > L_0 > N_1", "M_0 > L_2 > N_4"], "L[0,2].N"),
        ([f"M_0 > L_{n} > MLP_{n} > Linear_{n}" for n in range(3)], "L[0-2].MLP.Linear"),
        ([f"Net_0 > Conv2d_{n}" for n in (0, 2, 4, 6)], "Conv2d[0…6]"),
        ([f"model.layers.{n}.mlp" for n in range(2)], "model.layers[0-1].mlp"),
        # Steps and annotations are no modules.
        (["Step_3 > my loss", "Step_4 > my loss"], None),
    ],
)
def test_modules_are_put_together_over_layers(paths: list[str | None], module: str | None) -> None:
    """GIVEN paths as PyTorch and NVTX ranges write them WHEN put together THEN by class, numbers
    that differ in brackets."""
    assert where(paths).module == module


def test_a_layer_whose_number_is_not_known_is_one_of_them() -> None:
    """GIVEN a layer with ? for its number THEN it counts and adds no number."""
    assert where(["M_0 > L_1 > A_1", "M_0 > L_? > A_?"]).words == "L[1].A (2 ×)"
    assert where(["M_0 > L_?"]).module == "L"


def test_ranges_keep_what_differs_in_brackets() -> None:
    """GIVEN annotations around a module THEN they are the range; a number sign is no number."""
    path = "#1 epoch {} > step[bs=32]"
    found = where([f"Net_0 > {path.format(n)} > Linear_0" for n in (3, 4)])
    assert found.range == "#1 epoch [3-4] > step[bs=32]"
    assert found.module == "Linear"


def test_the_module_is_the_innermost_with_more_than_half() -> None:
    """GIVEN 40 + 40 ns in two modules of a layer, 20 elsewhere THEN the layer that holds both."""
    paths: list[str | None] = ["M_0 > L_1 > A_0", "M_0 > L_1 > B_0", "M_0 > Head_0"]
    found = where(paths, durations=[40, 40, 20])
    assert (found.module, found.launches, found.of_launches) == ("L[1]", 2, 3)
    assert where(paths, durations=[60, 20, 20]).words == "L[1].A (1 of 3 ×)"


def test_launches_without_a_module_are_counted_and_may_be_most() -> None:
    """GIVEN 1 of 3 launches known THEN it speaks and is counted; of 5 % of the time it does not."""
    assert where(["Net_0 > Linear_1", None, None]).words == "Linear[1] (1 of 3 ×)"
    assert where(["Net_0 > Linear_1", None], durations=[5, 95]) == NOWHERE
    assert where([None]) == NOWHERE
    # Without times launches count.
    assert where(["Net_0 > Linear_1"], durations=[None]).words == "Linear[1] (1 ×)"


def test_without_a_module_words_name_range_then_operator() -> None:
    """GIVEN a range and an operator, then an operator alone THEN that is where it is."""
    both = where(["iter > fwd"] * 2, operators=["aten::mul"] * 2)
    assert both == Place(None, "aten::mul", "iter > fwd", None, 2, 2)
    assert both.words == "fwd (2 ×)"
    assert where([None] * 2, operators=["aten::mul"] * 2).words == "aten::mul (2 ×)"


def test_a_table_adds_up_to_all_time_and_places_each_finding_once() -> None:
    """GIVEN 30, 50 and 20 ns, the last without a module WHEN added up THEN 100 in all, and the
    finding on all of it stands where most of its known time is."""
    found = places(["M_0 > L_0 > A_0", "M_0 > L_1 > A_1", None], durations=[30, 50, 20])
    first, rest = found.table("module", {"rule:1": found.weights(found.rows_of(0))})
    assert (first.name, first.launches, first.time_ns, first.share) == ("L[0-1].A", 2, 80, 0.8)
    assert first.findings == ("rule:1",)
    assert (rest.name, rest.time_ns, rest.findings) == (None, 20, ())
    assert found.table("range") == ()


@pytest.mark.parametrize("path", ["A_" + "9" * 5000, "a." + "1" * 5000, "\0 7 \0", "a > > .", ""])
def test_hostile_paths_are_read(path: str) -> None:
    """GIVEN numbers of 5,000 digits, empty parts, our own sign THEN no error."""
    found = places([path, path])
    assert found.place(found.weights(found.rows_of(0))).source is None
    assert sum(one.launches for one in found.table("module")) in (0, 2)
    assert sum(one.launches for one in found.table("range")) in (0, 2)


@pytest.mark.corpus
def test_a_real_trace_of_qwen_says_where() -> None:
    """GIVEN Qwen1.5-0.5B with modules: 1,509 of 1,517 launches have one, 455 of them from before
    the recording, in eleven layers of the same kernels; the mm of the MLP runs twice in each of 24
    recorded layers and of those eleven."""
    path = CORPUS / "tracelens_mi300_Qwen1.5-0.5B.json.gz"
    diagnosis = traceroof.diagnose(traceroof.ingest([path]))
    first = diagnosis.kernels[0].where
    line = "transformers/models/qwen2/modeling_qwen2.py(56): forward"
    assert (first.words, first.operator, first.source) == (
        "Qwen2DecoderLayer[0-23].Qwen2MLP.Linear (70 ×)", "aten::mm", line
    )  # fmt: skip
    by_module = diagnosis.places["module"]
    assert sum(one.launches for one in by_module) == 1517
    assert sum(one.launches for one in by_module if one.name) == 1509
    norm = next(one for one in diagnosis.fired() if one.rule == "unfused-norm")
    assert norm.where.module == "Qwen2DecoderLayer[0-23].Qwen2RMSNorm"
    row = next(one for one in by_module if one.name == norm.where.module)
    assert "unfused-norm:1" in row.findings
