"""The process in which conditions are evaluated that could take long. It imports nothing of Assent, so it starts fast.

One question a line, one answer a line. The library holds Python's lock while it computes, and cannot be interrupted:
so each question may take so much computing time, and then the kernel ends this process.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any

import cel

_MEMORY = 1_000_000_000
_KINDS = (TypeError, IndexError, ArithmeticError)


def main() -> None:
    seconds = float(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _evaluated(asked["text"], asked["variables"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _evaluated(text: str, variables: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = cel.compile(text).execute(cel.Context(variables=variables))
    except KeyError as error:
        return {"missing": str(error.args[0])}
    except Exception as error:
        kind = next((kind.__name__ for kind in _KINDS if isinstance(error, kind)), "ValueError")
        return {"raised": kind}
    return {"answer": answer if isinstance(answer, bool) else None}


if __name__ == "__main__":
    main()
