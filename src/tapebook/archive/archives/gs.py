"""An archive in a bucket of Google Cloud Storage: `gs://BUCKET/PREFIX`; see `_bucket.py`."""

from tapebook.archive.archives._bucket import BucketArchive


def create(place: str, *, durable: bool = True) -> BucketArchive:
    """The adapter's entry point; what the server has taken is as durable as the server."""
    return BucketArchive(place)
