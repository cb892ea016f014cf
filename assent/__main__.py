"""`python -m assent`: the command line."""

from assent.command import main

main()
