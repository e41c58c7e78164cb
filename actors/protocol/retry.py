"""Whether to call a model again, and when."""

import msgspec

from actors.protocol.model import ModelFailure

# More would leave the range of floats; no ceiling is as high.
_DOUBLINGS = 256


class RetryPolicy(msgspec.Struct, frozen=True):
    """`ceiling_s` also bounds what a provider may ask for: a longer wait fails at once, with the time shown."""

    max_retries: int = 4
    base_s: float = 1.0
    ceiling_s: float = 60.0


def retry_delay(policy: RetryPolicy, retry: int, failure: ModelFailure, jitter: float) -> float | None:
    """Seconds to wait before retry number `retry` (from 1), or None to give up.

    `jitter`, in [0, 1), is drawn by the caller. Raises ValueError if `retry` is below 1.
    Source: "full jitter" in Brooker, Exponential Backoff and Jitter (AWS, 2015).
    """
    if retry < 1:
        raise ValueError(f"retries count from 1, got {retry}")
    if retry > policy.max_retries or not failure.is_retryable:
        return None
    if failure.retry_after_s is not None:
        return max(0.0, failure.retry_after_s) if failure.retry_after_s <= policy.ceiling_s else None
    return jitter * min(policy.ceiling_s, policy.base_s * 2.0 ** min(retry - 1, _DOUBLINGS))
