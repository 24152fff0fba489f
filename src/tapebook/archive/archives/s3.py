"""An archive in a bucket of S3, R2 or what speaks the same: `s3://BUCKET/PREFIX`; see `_bucket.py`."""

from tapebook.archive.archives._bucket import BucketArchive


def create(place: str, *, durable: bool = True) -> BucketArchive:
    """The adapter's entry point; what the server has taken is as durable as the server."""
    return BucketArchive(place)
