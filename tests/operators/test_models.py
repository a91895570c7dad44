"""The closed forms against the reference's figures, each row with its own arithmetic.

The rows stand in ``oracles``; ``test_every_oracle_row_is_tested`` holds the list against the
reference itself.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import closed_forms as more_forms
from tests.oracles import (
    AFFINE,
    ATTENTION_UNFUSED,
    BANDWIDTH,
    COSTS,
    ELEMENTS,
    FLOORS,
    KV_CACHES,
    RIDGES,
    WAVES,
    conv,
    decode,
    gemm,
    over,
    prefill,
)
from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost


@pytest.mark.parametrize("name", COSTS)
def test_cost_is_the_reference_s(name: str) -> None:
    cost, flops, moved, intensity = COSTS[name]
    assert f"{cost.flops:.6e}" == flops
    assert f"{cost.bytes:.6e}" == moved
    assert f"{cost.intensity:.6f}" == intensity


@pytest.mark.parametrize(
    ("cost", "flops", "moved"),
    [
        (gemm(4096, 4096, 4096), 137_438_953_472, 100_663_296),
        (gemm(16, 4096, 4096), 536_870_912, 33_816_576),
        (gemm(1, 28672, 8192), 469_762_048, 469_835_776),
        (gemm(1, 4096, 4096, b=more_forms.quantised_size(4, 128)), 33_554_432, 8_667_136),
        (conv(3, 64, 224, 7, 2, 3), 7_552_892_928, 61_032_832),
        (conv(256, 256, 56, 3, 1, 1, groups=256), 462_422_016, 102_765_056),
        (prefill(4096, 8, causal=True, lse=True), 137_472_507_904, 84_410_368),
        (ATTENTION_UNFUSED, 274_877_906_944, 4_429_185_024),
        (decode(1, 32, 8), 67_108_864, 16_793_600),
        (more_forms.latent_decode(1, 128, 4096, 512, 64, size=2), 1_140_850_688, 4_997_120),
        (over(8, 1, 1, extra=AFFINE), 2_147_483_648, 1_073_758_208),
    ],
)
def test_cost_is_exact(cost: Cost, flops: int, moved: int) -> None:
    """Whole numbers of the reference's table, not only seven digits of them."""
    assert (cost.flops, cost.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("inputs", "kernel", "stride", "padding", "outputs"),
    [(56, 3, 1, 1, 56), (56, 1, 1, 0, 56), (224, 7, 2, 3, 112), (7, 3, 1, 1, 7), (14, 3, 1, 1, 14)],
)
def test_convolution_outputs(
    inputs: int, kernel: int, stride: int, padding: int, outputs: int
) -> None:
    """PQ of the reference's rows."""
    assert models.convolution_outputs((inputs,), (kernel,), (stride,), (padding,), (1,)) == (
        outputs,
    )


def test_transposed_convolution_undoes_the_outputs() -> None:
    # (4 - 1) x 2 - 2 x 1 + 1 x (3 - 1) + 1 + 1 = 8, of which the convolution makes 4 again
    assert models.transposed_outputs((4,), (3,), (2,), (1,), (1,), (1,)) == (8,)
    assert models.convolution_outputs((8,), (3,), (2,), (1,), (1,)) == (4,)


@pytest.mark.parametrize("device", RIDGES)
def test_rows_at_ridge(device: str) -> None:
    ridge, ridge_text, at_4096, at_8192 = RIDGES[device]
    assert f"{ridge:.1f}" == ridge_text
    for size, text in ((4096, at_4096), (8192, at_8192)):
        rows = more_forms.rows_at_ridge(ridge, size, size, activation_size=2, weight_size=2)
        assert rows is not None
        assert f"{rows:.1f}" == text


def test_rows_at_ridge_that_is_never_reached() -> None:
    # N = K = 64 in half precision has at most 2NK / (2(N + K)) = 32 FLOP/byte, however many rows
    assert more_forms.rows_at_ridge(153, 64, 64, activation_size=2, weight_size=2) is None


@pytest.mark.parametrize("model", KV_CACHES)
def test_kv_cache(model: str) -> None:
    layers, heads, token, at_2048, gib_2048, gib_4096 = KV_CACHES[model]
    assert more_forms.kv_cache_bytes(layers, heads, 128, 1, 2) == token
    assert more_forms.kv_cache_bytes(layers, heads, 128, 2048, 2) == at_2048
    assert f"{at_2048 / 2**30:.4f}" == gib_2048
    assert f"{more_forms.kv_cache_bytes(layers, heads, 128, 4096, 2) / 2**30:.4f}" == gib_4096


def test_the_memory_bound_tensor() -> None:
    assert ELEMENTS == 268_435_456
    assert ELEMENTS * 2 == 536_870_912 == 512 * 2**20


@pytest.mark.parametrize(
    ("kind", "read", "written"),
    [
        ("adam 16-bit model, fp32 states", 14, 14),
        ("adam fp32", 16, 12),
        ("sgd fp32", 8, 4),
        ("sgd momentum fp32", 12, 8),
        ("adam 16-bit", 8, 6),
    ],
)
def test_optimizer_bytes(kind: str, read: int, written: int) -> None:
    rule = models.OPTIMIZERS[kind]
    assert (rule.read, rule.written, rule.bytes) == (read, written, read + written)


@pytest.mark.parametrize(
    ("device", "nominal", "likely"),
    [("A100-80", "96.13", "113.09"), ("H100SXM", "58.51", "68.83"), ("H200", "40.83", "48.04")],
)
def test_adam_of_seven_billion_parameters(device: str, nominal: str, likely: str) -> None:
    cost = more_forms.optimizer_step(7_000_000_000, "adam 16-bit model, fp32 states")
    assert cost.bytes == 196_000_000_000
    assert f"{cost.bytes / BANDWIDTH[device] * 1e3:.2f}" == nominal
    assert f"{cost.bytes / BANDWIDTH[device] / 0.85 * 1e3:.2f}" == likely


@pytest.mark.parametrize("model", FLOORS)
def test_time_per_token_floor(model: str) -> None:
    parameters, size, milliseconds = FLOORS[model]
    for bandwidth, text in zip(BANDWIDTH.values(), milliseconds.split(), strict=True):
        floor = more_forms.time_per_token_floor(parameters, size, bandwidth)
        assert f"{floor * 1e3:.3f}" == text


@pytest.mark.parametrize(
    ("rate", "gigabytes", "percent"),
    [(15, "202.1", "9.9"), (20, "269.5", "13.2"), (28, "377.3", "18.5"), (33, "444.7", "21.8")],
)
def test_bandwidth_at_a_token_rate(rate: int, gigabytes: str, percent: str) -> None:
    """A 7B model in half precision at a measured rate, as a share of 2039 GB/s."""
    seconds = more_forms.time_per_token_floor(6.738e9, 2, 2.039e12)
    assert f"{6.738e9 * 2 * rate / 1e9:.1f}" == gigabytes
    assert f"{seconds * rate * 100:.1f}" == percent


def test_linear_layer_of_65536_rows() -> None:
    cost = gemm(65536, 4096, 4096)
    assert f"{cost.flops:.3e}" == "2.199e+12"
    assert f"{cost.flops / 300e12 * 1e3:.2f}" == "7.33"
    assert f"{cost.flops / 312e12 * 1e3:.2f}" == "7.05"
    assert f"{cost.bytes / 1e9:.3f}" == "1.107"
    assert f"{cost.bytes / 2e12 * 1e3:.3f}" == "0.554"


def test_ten_passes_over_the_tensor() -> None:
    moved = 10 * over(0, 1, 1).bytes
    assert moved == 10.73741824e9
    assert moved / 2e12 * 1e3 == pytest.approx(5.36870912, rel=1e-12)
    assert moved / 1.7e12 * 1e3 == pytest.approx(6.316128376470588, rel=1e-12)


def test_tile_intensity() -> None:
    assert more_forms.tile_intensity(128, 128, 2) == 64
    assert more_forms.tile_intensity(128, 128, 4) == 32


@pytest.mark.parametrize("case", WAVES)
def test_waves(case: tuple[int, int, int, int, int]) -> None:
    tiles, waves, rounds, efficiency, tile_efficiency = WAVES[case]
    found = more_forms.waves(*case)
    assert (found.tiles, found.rounds) == (tiles, rounds)
    assert f"{found.waves:.4f}" == waves
    assert f"{found.efficiency:.4f}" == efficiency
    assert f"{found.tile_efficiency:.4f}" == tile_efficiency


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_ring_all_reduce(ranks: int, factor: float) -> None:
    assert more_forms.wire_factor("allreduce", ranks) == factor
    assert more_forms.wire_factor("_allgather_base", ranks) == factor / 2
    assert more_forms.wire_factor("send", ranks) is None


def test_padding_waste() -> None:
    """2048 tokens padded to 4096: half of the linear work, three quarters of the attention."""
    assert more_forms.padding_waste([2048], 4096) == (0.5, 0.75)


def test_attention_backward_is_two_and_a_half_times_forward() -> None:
    forward = prefill(4096, causal=True)
    backward = models.attention_backward(
        1, 32, 32, 4096, 4096, 128, 128, size=2, pairs=models.causal_pairs(4096, 4096)
    )
    assert backward.flops == 2.5 * forward.flops
    # Q K V O dO dQ dK dV of 32 x 4096 x 128 x 2 bytes each, and the log-sum-exp
    assert backward.bytes == 8 * 32 * 4096 * 128 * 2 + 4 * 32 * 4096


def test_grouped_gemm_reads_only_the_experts_hit() -> None:
    cost = more_forms.grouped_gemm([3, 0, 5], 16, 32, a_size=2, b_size=2, out_size=2)
    assert cost.flops == 2 * 16 * 32 * 8
    assert cost.bytes == 2 * 32 * 8 + 2 * 16 * 32 * 2 + 2 * 16 * 8


def test_exponentials_of_the_reference() -> None:
    """5.37e8 at S = 4096 and 32 heads."""
    assert f"{more_forms.exponentials(1, 32, 4096 * 4096):.2e}" == "5.37e+08"


@given(queries=st.integers(1, 24), keys=st.integers(1, 24), data=st.data())
def test_masks_count_what_they_keep(queries: int, keys: int, data: st.DataObject) -> None:
    """Against the mask written out, entry by entry."""
    limit = st.one_of(st.none(), st.integers(0, 24))
    left, right = data.draw(limit), data.draw(limit)
    shift = keys - queries
    cells = [(row, column) for row in range(queries) for column in range(keys)]
    kept = sum(
        (left is None or column >= row + shift - left)
        and (right is None or column <= row + shift + right)
        for row, column in cells
    )
    assert models.window_pairs(queries, keys, left, right) == kept
    assert models.causal_pairs(queries, keys) == sum(c <= r + shift for r, c in cells)
    assert models.causal_pairs(queries, keys, top_left=True) == sum(c <= r for r, c in cells)


@pytest.mark.corpus
def test_every_oracle_row_is_tested(corpus: Path) -> None:
    """The reference's list of figures, line by line: each is in a table above or in a test."""
    path = corpus.parent / "reference" / "roofline_oracles.txt"
    if not path.exists():
        pytest.skip("no ../shared/reference beside the checkout")
    elsewhere = (
        "tensor [32,2048,4096]", "AdamW mixed", "AdamW pure", "AdamW 7B", "7B fp16 at",
        "seed check", "10 small ops", "tile 128x128", "ring allreduce",
    )  # fmt: skip
    left = []
    for line in path.read_text().splitlines():
        text = re.sub(r"^(m\* bf16 N=K=4096|kv/token|TPOT floor) ", "", line.strip())
        name = re.split(r"\s{2,}FLOP=| ridge=| \d+ B;|: A100", text)[0].strip()
        if name in {**COSTS, **RIDGES, **KV_CACHES, **FLOORS} or name.startswith(elsewhere):
            continue
        wave = re.match(r"waves \(([\d, ]+)\)", name)
        if wave and tuple(int(one) for one in wave[1].split(",")) in WAVES:
            continue
        left.append(line)
    assert not left
