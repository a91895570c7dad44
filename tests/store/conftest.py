"""A real S3 server, on this machine alone."""

from collections.abc import Iterator

import pytest


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
