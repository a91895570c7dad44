"""Kernel names: spellings that mean one kernel, and short forms that are never ambiguous."""

from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.kernel_names import demangled, function, key, short_names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void f<float, (int)4>(float *)", "void f<float, 4>(float *)"),
        ("void a::(anonymous namespace)::f<int> (int)", "void a::<unnamed>::f<int> (int)"),
        ("void f<g<int> >(int)", "void f<g<int>>(int)"),
        ("void unnamed>::f(int)", "void <unnamed>::f(int)"),
        ("void unnamed>::f<unnamed>::g<2>, 4>(int)", "void <unnamed>::f<<unnamed>::g<2>, 4>(int)"),
        ("f.kd", "f"),
        ("f(float*) [clone .kd]", "f(float*)"),
    ],
)
def test_spellings_of_one_kernel_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other)


def test_template_arguments_tell_kernels_apart() -> None:
    assert key("f<float>(int)") != key("f<double>(int)")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::<unnamed>::f<float, (int)4>(const T1 *, ...)", "f<float,4>"),
        ("enable_if<!T7, void>::type kernel<int, float>(T13)", "kernel<int,float>"),
        ("unnamed>::saxpy(float)", "saxpy"),
        ("void unnamed>::Cat<unnamed>::Opaque<2>, unsigned int>(char *)",
         "Cat<{anonymous}::Opaque<2>,unsigned int>"),
        ("triton_poi_fused_add_3", "triton_poi_fused_add_3"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128", "Cijk_Ailk_Bljk_HHS_BH_MT128x128"),
        ("copy[v1,abc](Array<long long>)", "copy[v1,abc]"),
        (("std::enable_if<(((8)>(0)))&&vllm::_t<c10::BFloat16>::exists, void>::type "
         "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)"),
         "fused_add_rms_norm_kernel<c10::BFloat16,8>"),
        ("void f<g(int)::[lambda(float) (instance 1)], 4>(int)",
         "f<g(int)::[lambda(float) (instance 1)],4>"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_function_without_type_namespace_and_parameters(name: str, short: str) -> None:
    assert function(name) == short


def test_what_is_cut_is_the_middle_of_the_arguments() -> None:
    (short,) = short_names([f"void kernel_name<{'a' * 60}, last_one>(int)"], 40).values()
    assert len(short) == 40
    assert short.startswith("kernel_name<aaa")
    assert short.endswith("last_one>")
    assert "…" in short


def test_names_that_differ_in_the_middle_stay_apart() -> None:
    names = [f"void k<{'a' * 50}{i}{'b' * 50}>(int)" for i in range(30)]
    short = short_names(names, 24)
    assert len(set(short.values())) == 30
    assert max(map(len, short.values())) <= 24


def test_overloads_that_differ_in_parameters_alone_stay_apart() -> None:
    short = short_names(["void k<int>(float)", "void k<int>(double)"], 30)
    assert len(set(short.values())) == 2


@given(st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=12), st.integers(0, 40))
def test_short_names_are_short_and_distinct(names: list[str], width: int) -> None:
    short = short_names(names, width)
    assert set(short) == set(names)
    assert len(set(short.values())) == len(names)
    assert all(len(text) <= max(width, 12) for text in short.values())
    assert all(text.isprintable() for text in short.values())


# --- mangled names --------------------------------------------------------------------------------

# Where its wheels are missing, names stay as they are.
needs_demangler = pytest.mark.skipif(find_spec("cpp_demangle") is None, reason="no cpp-demangle")

FMHA = "_ZN7ck_tile6kentryILi2ENS_17FmhaFwdKernelImplIDF16bEEJEEEvv"


@needs_demangler
@pytest.mark.parametrize(
    ("name", "readable"),
    [
        # Itanium C++ ABI, 5.1.5.2: DF16b is std::bfloat16_t
        (FMHA, "void ck_tile::kentry<2, ck_tile::FmhaFwdKernelImpl<std::bfloat16_t>, >()"),
        ("_Z6reducePfi.kd", "reduce(float*, int)"),
        ("_Z6reducePfi [clone .kd]", "reduce(float*, int)"),
        # cut, damaged, too long, or no symbol at all: as they are
        ("_ZN7ck_tile6kentryILi1", "_ZN7ck_tile6kentryILi1"),
        ("_Z" + "P" * 20_000, "_Z" + "P" * 20_000),
        ("Cijk_Alik_Bljk_HB_MT128x128", "Cijk_Alik_Bljk_HB_MT128x128"),
        ("void reduce<float>(float *)", "void reduce<float>(float *)"),
    ],
)
def test_a_mangled_name_is_demangled_for_people(name: str, readable: str) -> None:
    assert demangled(name) == readable


@needs_demangler
def test_short_names_are_readable() -> None:
    # GIVEN a mangled symbol and its neighbour with the same function
    half = FMHA.replace("DF16b", "DF16_")
    # WHEN both are shortened THEN people see functions, told apart by the element type
    short = short_names([FMHA, half], 60)
    assert short[FMHA] == "kentry<2,ck_tile::FmhaFwdKernelImpl<std::bfloat16_t>,>"
    assert short[half] == "kentry<2,ck_tile::FmhaFwdKernelImpl<_Float16>,>"
