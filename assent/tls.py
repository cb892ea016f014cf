"""By which certificates a server is trusted."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """Those that are trusted here, read once in a process: reading them takes longer than most requests do.

    trust_env: whether `SSL_CERT_FILE` and `SSL_CERT_DIR` may name others.
    """
    return httpx.create_ssl_context(trust_env=trust_env)
