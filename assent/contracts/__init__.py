"""The words of the product as frozen models, by subject.

Field names reach Temporal's history and the ledger: they are persisted data.
"""
