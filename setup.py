"""The one compiled part; everything else is said in pyproject.toml."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "traceroof.parsers.torch._scan",
            ["parsers/torch/_scan.c"],
            depends=glob("parsers/torch/scan/*.h"),
            # Without a C compiler all is installed but this; large PyTorch traces take longer then.
            optional=True,
            py_limited_api=True,
        )
    ],
    # One wheel serves all versions of Python from this one on.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
