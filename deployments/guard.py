"""Wait for the end of the parent process, then end all processes that carry its mark."""

import signal
import sys

from deployments.processes import end, marked

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to all processes reaches the parent too
    sys.stdin.read()  # returns when the parent's end of the pipe is closed
    end(marked(sys.argv[1]))
