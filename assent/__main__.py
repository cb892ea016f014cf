"""`python -m assent`: the command line."""

from assent.cli.main import main

main()
