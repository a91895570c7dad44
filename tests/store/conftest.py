"""A real PostgreSQL and a real S3 server, on this machine alone."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from glob import glob
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest
import sqlalchemy as sa


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The socket folder of a PostgreSQL server of our own, which listens nowhere else."""
    found = [shutil.which("initdb"), *sorted(glob("/usr/lib/postgresql/*/bin/initdb"))]
    initdb = next((path for path in reversed(found) if path), None)
    if initdb is None or not find_spec("psycopg"):
        missing = "PostgreSQL and psycopg are not both installed"
        if os.environ.get("TRACEROOF_CI") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    # The path of a socket is short, and the server refuses to run as root.
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg") as place:
        if user:
            shutil.chown(place, user)
        data, ctl = f"{place}/data", str(Path(initdb).with_name("pg_ctl"))
        options = f"-k {place} -c listen_addresses='' -c fsync=off"

        def run(*command: str) -> None:
            subprocess.run(
                command, user=user, cwd=place, check=True, stdout=subprocess.DEVNULL, timeout=120
            )

        run(initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8")
        run(ctl, "-D", data, "-l", f"{place}/log", "-w", "-o", options, "start")
        try:
            yield place
        finally:
            run(ctl, "-D", data, "-m", "immediate", "-w", "stop")


@pytest.fixture
def postgresql(server: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database that is empty."""
    name = "db" + sha256(request.node.nodeid.encode()).hexdigest()[:16]
    address = "postgresql+psycopg://tester@/{}?host=" + server
    engine = sa.create_engine(address.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return address.format(name)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket of an S3 server on loopback."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    from pyarrow import fs

    from traceroof.ingest import remote

    remote._filesystem.cache_clear()  # the server of another test
    storage = fs.S3FileSystem(endpoint_override=f"http://{host}:{port}", region="us-east-1",
                              allow_bucket_creation=True)  # fmt: skip
    storage.create_dir("traces")
    try:
        yield "s3://traces"
    finally:
        server.stop()


#: Credentials that no output may show.
SECRETS = {"AWS_ACCESS_KEY_ID": "AKIAHUSHHUSH", "AWS_SECRET_ACCESS_KEY": "hush-hush-hush"}
