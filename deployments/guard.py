"""Waits for the end of the process that started it, then ends all that carries its mark."""

import signal
import sys

from deployments.processes import end, marked

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends everybody ends the parent too
    sys.stdin.read()  # answers when the parent's end of the pipe is closed, by whom ever
    end(marked(sys.argv[1]))
