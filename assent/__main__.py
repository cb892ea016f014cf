"""`python -m assent`, and the command `assent`."""

import sys
from typing import NoReturn

from assent.errors import MissingExtra

_NOTHING_WAS_SENT = 2
"""What `assent.cli` calls USAGE, where it cannot be imported."""


def main() -> NoReturn:
    try:
        from assent.cli.main import main as run
    except MissingExtra as error:
        print(f"assent: {error}", file=sys.stderr)
        sys.exit(_NOTHING_WAS_SENT)
    run()


if __name__ == "__main__":
    main()
