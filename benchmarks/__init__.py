"""measure: what an approval costs beside a bare workflow on the same server, and where the cost goes."""
