"""The reference's roofline figures as cases: what each is called there, our cost, its figures.

``test_models`` holds our closed forms against the figures as they stand here; ``benchmarks.accuracy``
against those in the reference itself.
"""

from tests import closed_forms as more_forms
from traceroof.operators import closed_forms as models
from traceroof.operators.closed_forms import Cost

# Bandwidth in byte/s, dense BF16 peak in FLOP/s, as the reference states them per device.
BANDWIDTH = {
    "A100-80": 2.039e12,
    "H100SXM": 3.35e12,
    "H200": 4.8e12,
    "L40S": 0.864e12,
    "4090": 1.008e12,
}


def gemm(
    m: int, n: int, k: int, a: float = 2, b: float = 2, out: float = 2, *, batch: int = 1
) -> Cost:
    return models.gemm(m, n, k, a_size=a, b_size=b, out_size=out, batch=batch)


def conv(
    channels: int, filters: int, inputs: int, kernel: int, stride: int, padding: int, *,
    size: float = 2, groups: int = 1, im2col: bool = False,
) -> Cost:  # fmt: skip
    """A square convolution of batch 32."""
    hw, rs = (inputs, inputs), (kernel, kernel)
    outputs = models.convolution_outputs(hw, rs, (stride,) * 2, (padding,) * 2, (1, 1))
    return models.convolution(
        32, channels, filters, hw, outputs, rs, size=size, groups=groups, explicit_im2col=im2col
    )


def prefill(keys: int, kv_heads: int = 32, *, causal: bool = False, lse: bool = False) -> Cost:
    pairs = models.causal_pairs(keys, keys) if causal else None
    return models.attention(
        1, 32, kv_heads, keys, keys, 128, 128, size=2, pairs=pairs, lse=lse
    )  # fmt: skip


def decode(batch: int, heads: int, kv_heads: int, kv_size: float = 2) -> Cost:
    return models.attention(
        batch, heads, kv_heads, 1, 4096, 128, 128, size=2, kv_size=kv_size
    )  # fmt: skip


# The tensor of the memory-bound rows: [32, 2048, 4096] in half precision.
ELEMENTS = 32 * 2048 * 4096
AFFINE = 2 * 2 * 4096  # gamma and beta of 4096 elements of 2 bytes


def over(flops: float, reads: int, writes: int, size: float = 2, extra: float = 0) -> Cost:
    return models.streaming(
        ELEMENTS, flops=flops, reads=[size] * reads, writes=[size] * writes, extra=extra
    )


CUBE = 4096, 4096, 4096
ATTENTION_UNFUSED = models.attention(1, 32, 32, 4096, 4096, 128, 128, size=2, fused=False)

# name in the reference -> cost, FLOP, bytes, FLOP/byte as printed there.
COSTS: dict[str, tuple[Cost, str, str, str]] = {
    "gemm fp16 MNK=(4096, 4096, 4096)": (gemm(*CUBE), "1.374390e+11", "1.006633e+08", "1365.333333"),
    "gemm fp16 MNK=(4096, 4096, 1)": (
        # the reference's order is (M, N, K) = (4096, 1, 4096) and its mirror: one vector
        gemm(4096, 1, 4096), "3.355443e+07", "3.357082e+07", "0.999512",
    ),
    "gemm fp16 MNK=(1, 4096, 4096)": (gemm(1, 4096, 4096), "3.355443e+07", "3.357082e+07", "0.999512"),
    "gemm fp16 MNK=(128, 4096, 4096)": (gemm(128, 4096, 4096), "4.294967e+09", "3.565158e+07", "120.470588"),
    "gemm fp16 MNK=(16, 4096, 4096)": (gemm(16, 4096, 4096), "5.368709e+08", "3.381658e+07", "15.875969"),
    "gemm fp16 MNK=(64, 4096, 4096)": (gemm(64, 4096, 4096), "2.147484e+09", "3.460301e+07", "62.060606"),
    "gemm fp16 MNK=(256, 4096, 4096)": (gemm(256, 4096, 4096), "8.589935e+09", "3.774874e+07", "227.555556"),
    "gemm fp16 MNK=(512, 4096, 4096)": (gemm(512, 4096, 4096), "1.717987e+10", "4.194304e+07", "409.600000"),
    "gemm fp16 MNK=(8192, 8192, 8192)": (gemm(8192, 8192, 8192), "1.099512e+12", "4.026532e+08", "2730.666667"),
    "gemm fp16 MNK=(1024, 1024, 1024)": (gemm(1024, 1024, 1024), "2.147484e+09", "6.291456e+06", "341.333333"),
    "gemm fp16 MNK=(1, 28672, 8192)": (gemm(1, 28672, 8192), "4.697620e+08", "4.698358e+08", "0.999843"),
    "gemm fp16 MNK=(65536, 4096, 4096)": (gemm(65536, 4096, 4096), "2.199023e+12", "1.107296e+09", "1985.939394"),
    "gemm fp32 4096^3": (gemm(*CUBE, 4, 4, 4), "1.374390e+11", "2.013266e+08", "682.666667"),
    "gemm fp8 in, bf16 out 4096^3": (gemm(*CUBE, 1, 1, 2), "1.374390e+11", "6.710886e+07", "2048.000000"),
    "gemm int8 in, int32 out 4096^3": (gemm(*CUBE, 1, 1, 4), "1.374390e+11", "1.006633e+08", "1365.333333"),
    "gemm fp16 in fp32 out 4096^3": (gemm(*CUBE, 2, 2, 4), "1.374390e+11", "1.342177e+08", "1024.000000"),
    "batched gemm B=64 128x128x64 fp16": (gemm(128, 128, 64, batch=64), "1.342177e+08", "4.194304e+06", "32.000000"),
    "gemv W4A16 g128 1x4096x4096": (
        gemm(1, 4096, 4096, b=more_forms.quantised_size(4, 128)), "3.355443e+07", "8.667136e+06", "3.871456",
    ),
    "gemv W8A16 1x4096x4096": (
        gemm(1, 4096, 4096, b=more_forms.quantised_size(8)), "3.355443e+07", "1.679360e+07", "1.998049",
    ),
    "conv 3x3 N32 C64->64 56x56 p1 fwd fp16": (conv(64, 64, 56, 3, 1, 1), "7.398752e+09", "2.576384e+07", "287.175835"),
    "conv 3x3 N32 C64->64 56x56 p1 dgrad": (conv(64, 64, 56, 3, 1, 1), "7.398752e+09", "2.576384e+07", "287.175835"),
    "conv 3x3 N32 C64->64 56x56 p1 wgrad": (conv(64, 64, 56, 3, 1, 1), "7.398752e+09", "2.576384e+07", "287.175835"),
    "conv 3x3 N32 C64->64 56x56 p1 fwd explicit im2col": (
        conv(64, 64, 56, 3, 1, 1, im2col=True), "7.398752e+09", "2.569748e+08", "28.791737",
    ),
    "conv 1x1 N32 C64->256 56x56 fwd fp16": (conv(64, 256, 56, 1, 1, 0), "3.288334e+09", "6.425805e+07", "51.173891"),
    "conv 1x1 N32 C64->256 56x56 dgrad": (conv(64, 256, 56, 1, 1, 0), "3.288334e+09", "6.425805e+07", "51.173891"),
    "conv 1x1 N32 C64->256 56x56 wgrad": (conv(64, 256, 56, 1, 1, 0), "3.288334e+09", "6.425805e+07", "51.173891"),
    "conv 1x1 N32 C64->256 56x56 fwd explicit im2col": (
        conv(64, 256, 56, 1, 1, 0, im2col=True), "3.288334e+09", "8.994816e+07", "36.558106",
    ),
    "conv 7x7/2 N32 C3->64 224 p3 fwd fp16": (conv(3, 64, 224, 7, 2, 3), "7.552893e+09", "6.103283e+07", "123.751310"),
    "conv 7x7/2 N32 C3->64 224 p3 dgrad": (conv(3, 64, 224, 7, 2, 3), "7.552893e+09", "6.103283e+07", "123.751310"),
    "conv 7x7/2 N32 C3->64 224 p3 wgrad": (conv(3, 64, 224, 7, 2, 3), "7.552893e+09", "6.103283e+07", "123.751310"),
    "conv 7x7/2 N32 C3->64 224 p3 fwd explicit im2col": (
        conv(3, 64, 224, 7, 2, 3, im2col=True), "7.552893e+09", "2.970607e+08", "25.425416",
    ),
    "conv 3x3 N32 C512->512 7x7 p1 fwd fp16": (conv(512, 512, 7, 3, 1, 1), "7.398752e+09", "7.929856e+06", "933.024793"),
    "conv 3x3 N32 C512->512 7x7 p1 dgrad": (conv(512, 512, 7, 3, 1, 1), "7.398752e+09", "7.929856e+06", "933.024793"),
    "conv 3x3 N32 C512->512 7x7 p1 wgrad": (conv(512, 512, 7, 3, 1, 1), "7.398752e+09", "7.929856e+06", "933.024793"),
    "conv 3x3 N32 C512->512 7x7 p1 fwd explicit im2col": (
        conv(512, 512, 7, 3, 1, 1, im2col=True), "7.398752e+09", "3.683123e+07", "200.882562",
    ),
    "conv 3x3 N32 C256->256 14x14 p1 fwd fp16": (conv(256, 256, 14, 3, 1, 1), "7.398752e+09", "7.602176e+06", "973.241379"),
    "conv 3x3 N32 C256->256 14x14 p1 dgrad": (conv(256, 256, 14, 3, 1, 1), "7.398752e+09", "7.602176e+06", "973.241379"),
    "conv 3x3 N32 C256->256 14x14 p1 wgrad": (conv(256, 256, 14, 3, 1, 1), "7.398752e+09", "7.602176e+06", "973.241379"),
    "conv 3x3 N32 C256->256 14x14 p1 fwd explicit im2col": (
        conv(256, 256, 14, 3, 1, 1, im2col=True), "7.398752e+09", "6.540493e+07", "113.122244",
    ),
    "depthwise 3x3 N32 C256 56x56 p1 fp16": (conv(256, 256, 56, 3, 1, 1, groups=256), "4.624220e+08", "1.027651e+08", "4.499798"),
    "depthwise 3x3 N32 C256 56x56 p1 fp32": (
        conv(256, 256, 56, 3, 1, 1, groups=256, size=4), "4.624220e+08", "2.055301e+08", "2.249899",
    ),
    "attn prefill B1 H32 MHA S4096 d128 noncausal fp16 (no lse)": (prefill(4096), "2.748779e+11", "1.342177e+08", "2048.000000"),
    "attn prefill B1 H32 MHA S4096 d128 causal fp16 (no lse)": (
        prefill(4096, causal=True), "1.374725e+11", "1.342177e+08", "1024.250000",
    ),
    "attn prefill B1 H32 KV8 S4096 d128 causal fp16 (+lse)": (
        prefill(4096, 8, causal=True, lse=True), "1.374725e+11", "8.441037e+07", "1628.621118",
    ),
    "attn prefill B1 H32 KV8 S8192 d128 causal fp16 (no lse)": (
        prefill(8192, 8, causal=True), "5.498229e+11", "1.677722e+08", "3277.200000",
    ),
    "attn prefill unfused (score w/r, prob w/r) S4096": (ATTENTION_UNFUSED, "2.748779e+11", "4.429185e+09", "62.060606"),
    "attn decode one head S4096 d128 fp16 (seed numbers)": (
        # counts the cache alone: 2 tensors x 4096 x 128 x 2 bytes
        Cost(decode(1, 1, 1).flops, more_forms.kv_cache_bytes(1, 1, 128, 4096, 2)), "2.097152e+06", "2.097152e+06", "1.000000",
    ),
    "attn decode B1 H32 KV32 S4096 d128": (decode(1, 32, 32), "6.710886e+07", "6.712525e+07", "0.999756"),
    "attn decode B64 H32 KV32 S4096 d128": (decode(64, 32, 32), "4.294967e+09", "4.296016e+09", "0.999756"),
    "attn decode B1 H32 KV8 S4096 d128 (g=4)": (decode(1, 32, 8), "6.710886e+07", "1.679360e+07", "3.996098"),
    "attn decode B1 H64 KV8 S4096 d128 (g=8)": (decode(1, 64, 8), "1.342177e+08", "1.680998e+07", "7.984405"),
    "attn decode B1 H64 KV8 S4096 d128 (g=8) fp8 KV": (decode(1, 64, 8, 1), "1.342177e+08", "8.421376e+06", "15.937743"),
    "attn decode MQA H32 KV1": (decode(1, 32, 1), "6.710886e+07", "2.113536e+06", "31.751938"),
    "MLA absorbed decode H128 S4096 (512+64) bf16": (
        more_forms.latent_decode(1, 128, 4096, 512, 64, size=2), "1.140851e+09", "4.997120e+06", "228.301639",
    ),
    "layernorm (8/elem) fp16 fused 1R1W (+gamma,beta)": (
        over(models.LAYER_NORM_FLOPS, 1, 1, extra=AFFINE), "2.147484e+09", "1.073758e+09", "1.999969",
    ),
    "layernorm two-pass (2R1W)": (over(8, 2, 1, extra=AFFINE), "2.147484e+09", "1.610629e+09", "1.333320"),
    "residual+layernorm fused (2R,2W)": (over(9, 2, 2, extra=AFFINE), "2.415919e+09", "2.147500e+09", "1.124991"),
    "residual+layernorm unfused (add 2R1W, ln 1R1W)": (over(9, 3, 2, extra=AFFINE), "2.415919e+09", "2.684371e+09", "0.899995"),
    "rmsnorm (4/elem)": (over(models.RMS_NORM_FLOPS, 1, 1, extra=2 * 4096), "1.073742e+09", "1.073750e+09", "0.999992"),
    "softmax fused (5/elem)": (over(models.SOFTMAX_FLOPS, 1, 1), "1.342177e+09", "1.073742e+09", "1.250000"),
    "softmax 3-kernel (R,R,RW =3R1W)": (over(5, 3, 1), "1.342177e+09", "2.147484e+09", "0.625000"),
    "softmax TraceLens count 3/elem": (over(3, 1, 1), "8.053064e+08", "1.073742e+09", "0.750000"),
    "unary elementwise 1/elem fp16": (over(1, 1, 1), "2.684355e+08", "1.073742e+09", "0.250000"),
    "binary add fp16": (over(1, 2, 1), "2.684355e+08", "1.610613e+09", "0.166667"),
    "binary add fp32": (over(1, 2, 1, size=4), "2.684355e+08", "3.221225e+09", "0.083333"),
    "bias+gelu fused ~ (1+8)/elem fp16": (
        over(1 + models.GELU_FLOPS, 1, 1, extra=2 * 4096), "2.415919e+09", "1.073750e+09", "2.249983",
    ),
    "swiglu (silu*up) fp16 5/elem, 2R1W": (over(models.SWIGLU_FLOPS, 2, 1), "1.342177e+09", "1.610613e+09", "0.833333"),
    "rope 6/elem pair->3/elem fp16 1R1W": (over(models.ROPE_FLOPS, 1, 1), "8.053064e+08", "1.073742e+09", "0.750000"),
    "transpose/copy": (over(0, 1, 1), "0.000000e+00", "1.073742e+09", "0.000000"),
    "embedding fwd T65536 D4096 fp16 (gather no reuse + int64 idx)": (
        models.embedding(65536, 4096, size=2), "0.000000e+00", "1.074266e+09", "0.000000",
    ),
}  # fmt: skip

# peak and bandwidth -> ridge, rows at the ridge for N = K = 4096 and for 8192.
RIDGES = {
    "A100-80 SXM 312/2.039": (312 / 2.039, "153.0", "165.4", "159.0"),
    "H100 SXM 989.4/3.35": (989.4 / 3.35, "295.3", "345.1", "318.3"),
    "H200 989.4/4.8": (989.4 / 4.8, "206.1", "229.2", "217.0"),
    "L40S 362/0.864": (362 / 0.864, "419.0", "526.7", "466.7"),
    "4090 165.2/1.008": (165.2 / 1.008, "163.9", "178.1", "170.7"),
    "H20 148/4.0": (148 / 4.0, "37.0", "37.7", "37.3"),
    "T4 65/0.32": (65 / 0.32, "203.1", "225.5", "213.7"),
}

# layers, KV heads, dim 128, 16 bit -> bytes a token, of 2048 tokens, GiB of 2048 and of 4096.
KV_CACHES = {
    "LLaMA-7B L32 H32 d128": (32, 32, 524288, 1073741824, "1.0000", "2.0000"),
    "Llama-3-8B L32 kv8 d128": (32, 8, 131072, 268435456, "0.2500", "0.5000"),
    "Llama-2-70B L80 kv8 d128": (80, 8, 327680, 671088640, "0.6250", "1.2500"),
    "Mistral-7B L32 kv8 d128": (32, 8, 131072, 268435456, "0.2500", "0.5000"),
}

# parameters, bytes a weight -> ms on A100-80, H100 SXM, H200, L40S, 4090.
FLOORS = {
    "7B 6.738e9 fp16": (6.738e9, 2, "6.609 4.023 2.808 15.597 13.369"),
    "7B 6.738e9 int8/fp8": (6.738e9, 1, "3.305 2.011 1.404 7.799 6.685"),
    "7B 6.738e9 int4": (6.738e9, 0.5, "1.652 1.006 0.702 3.899 3.342"),
    "8B 8.03e9 fp16": (8.03e9, 2, "7.876 4.794 3.346 18.588 15.933"),
    "8B 8.03e9 int8/fp8": (8.03e9, 1, "3.938 2.397 1.673 9.294 7.966"),
    "8B 8.03e9 int4": (8.03e9, 0.5, "1.969 1.199 0.836 4.647 3.983"),
    "13B 13.016e9 fp16": (13.016e9, 2, "12.767 7.771 5.423 30.130 25.825"),
    "13B 13.016e9 int8/fp8": (13.016e9, 1, "6.384 3.885 2.712 15.065 12.913"),
    "13B 13.016e9 int4": (13.016e9, 0.5, "3.192 1.943 1.356 7.532 6.456"),
    "70B 70.55e9 fp16": (70.55e9, 2, "69.201 42.119 29.396 163.310 139.980"),
    "70B 70.55e9 int8/fp8": (70.55e9, 1, "34.600 21.060 14.698 81.655 69.990"),
    "70B 70.55e9 int4": (70.55e9, 0.5, "17.300 10.530 7.349 40.828 34.995"),
}

# M, N, tile, SMs -> tiles, waves, rounds, wave efficiency, tile efficiency.
WAVES = {
    (4096, 4096, 128, 128, 108): (1024, "9.4815", 10, "0.9481", "1.0000"),
    (4096, 4096, 256, 128, 108): (512, "4.7407", 5, "0.9481", "1.0000"),
    (1024, 1024, 128, 128, 108): (64, "0.5926", 1, "0.5926", "1.0000"),
    (4096, 4096, 128, 256, 132): (512, "3.8788", 4, "0.9697", "1.0000"),
    (2304, 4096, 256, 128, 108): (288, "2.6667", 3, "0.8889", "1.0000"),
    (13824, 128, 128, 128, 108): (108, "1.0000", 1, "1.0000", "1.0000"),
    (13952, 128, 128, 128, 108): (109, "1.0093", 2, "0.5046", "1.0000"),
}
