"""Metadata and entry points of ``swift-storlets``; a unit test imports each entry point."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def requirements() -> list[str]:
    """The packages that the product itself imports; exact versions of everything are in
    requirements.txt."""
    return [
        "swift>=2.35.0", "docker>=7.0", "eventlet>=0.36", "jsonschema>=4.20", "PyYAML>=6.0",
        "cryptography>=41",
    ]  # fmt: skip


def readme() -> str:
    path = HERE / "README.rst"
    return path.read_text(encoding="utf-8") if path.exists() else ""


setup(
    name="swift-storlets",
    version="0.2.0",
    description="Functions that run inside an OpenStack Swift cluster, where the data are",
    long_description=readme(),
    long_description_content_type="text/x-rst",
    license="Apache-2.0",
    python_requires=">=3.11",
    # The all-in-one cluster is no part of the product; it runs from a checkout.
    packages=find_packages(
        include=["storlet_middleware*", "storlet_daemon*", "rules*"],
        exclude=["storlet_middleware.aio*"],
    ),
    include_package_data=True,
    package_data={
        "": ["*.rst", "*.json", "py.typed"],
        # The system library: a link to storlets/std.
        "storlet_middleware": ["std/*/storlet.toml", "std/*/src/**/*.py"],
    },
    data_files=[
        (
            "share/swift-storlets/etc",
            [str(p.relative_to(HERE)) for p in sorted((HERE / "etc").glob("*"))],
        )
    ],
    install_requires=requirements(),
    entry_points={
        "paste.filter_factory": [
            "storlets = storlet_middleware.filter:filter_factory",
            "s3api = storlet_middleware.s3select.filter:filter_factory",
            "s3_headers = storlet_middleware.wsgi.s3_headers:filter_factory",
        ],
        "console_scripts": [
            "storlet = storlet_middleware.cli.entry:main",
            "storlet-sandboxd = storlet_middleware.sandboxd.__main__:main",
            "storlet-local = storlet_middleware.local.__main__:main",
        ],
    },
    classifiers=[
        "Environment :: OpenStack",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Typing :: Typed",
    ],
)
