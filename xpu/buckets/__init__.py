"""Bucket policies: neighbouring sizes share one answer. Pure arithmetic, no I/O."""

from xpu.buckets.bucket import bucket, bucket_problem, check_policy, family_bucket

__all__ = ["bucket", "bucket_problem", "check_policy", "family_bucket"]
