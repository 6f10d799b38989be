# Every recipe is one or two commands; `just` alone lists them.

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# List the recipes
default:
    @just --list --unsorted

# Install everything into .venv, as locked
setup:
    python3 -m venv .venv
    .venv/bin/pip install -c requirements.lock -e '.[local,dev]'

# Run every job that needs no key and no GPU, then render its page; the same again resumes
run-all *FLAGS:
    leakgrid run jobs/muppet-demo.toml jobs/muppet-parties.toml jobs/muppet-generate-demo.toml \
        jobs/labels-demo.toml jobs/dialogue-demo.toml --report {{FLAGS}}

# Run one job file: just run jobs/local.toml
run JOB *FLAGS:
    leakgrid run {{JOB}} --report {{FLAGS}}

# Show calls, tokens, dollars and time of a job before anything is sent
plan JOB:
    leakgrid plan {{JOB}}

# Ask SQL of everything so far: a query, or the name of a file in reports/
sql QUERY *FLAGS:
    leakgrid sql {{quote(QUERY)}} {{FLAGS}}

# Render the pages of all jobs (or one) into reports/out
report *JOB:
    leakgrid report {{JOB}}

# Run the tests (arguments go to pytest)
test *ARGS:
    pytest {{ARGS}}

# Ask a real provider a few cheap calls (under a cent, needs its key): just live openai|google
live PROVIDER:
    pytest -m live tests/live/test_{{PROVIDER}}.py

# Measure speed against peers in the same run
bench *ARGS:
    python -m tests.bench --write {{ARGS}}

# Check style and types
lint:
    ruff check engine tests && ruff format --check engine tests && mypy

# Write generated parts of the README anew
docs:
    python -m tests.docs

# Resolve the lock file anew
lock:
    uv pip compile pyproject.toml --universal --extra local --extra google --extra openai --extra redact --extra dev --no-annotate --upgrade -o requirements.lock
