# One image for every process of Assent; the command says which. A team with tools of its own builds on it:
#   FROM assent
#   COPY our_tools.py .
# and sets ASSENT_TOOLS=our_tools; with the compose file also ASSENT_IMAGE, in .env.

FROM python:3.11.14-slim AS build
WORKDIR /assent
COPY requirements-service.lock pyproject.toml README.md LICENSE ./
COPY assent assent
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements-service.lock \
    && /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /venv/bin/pip uninstall --yes --quiet pip

FROM python:3.11.14-slim
RUN useradd --system --uid 10001 --no-create-home assent
WORKDIR /assent
COPY --from=build /venv /venv
COPY workflows workflows
COPY activities activities
COPY cards cards
COPY ledger ledger
COPY workers workers
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
CMD ["python", "-m", "workers.approvals"]
