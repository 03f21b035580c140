"""A SIGTERM ends a program whatever it does at that moment, and a second one at once."""

import signal
import subprocess
import sys
import time

import pytest

from sentemb_core.termination import STATUS

PROGRAM = """
import os, signal, sys, threading, time
from sentemb_core import termination
termination.PAUSE, termination.GRACE = 0.2, 1.0

class Slow:
    def __del__(self):  # an exception in here is lost
        time.sleep(0.3)

def term(after=0.0):
    threading.Timer(after, os.kill, [os.getpid(), signal.SIGTERM]).start()

def ended(how):
    print(how, flush=True)
    os._exit(termination.STATUS)

try:
    with termination.terminable():
        term()
        {}
except termination.Terminated:
    ended("raised")
"""

SITUATIONS = {
    "asleep": ("time.sleep(60)", "raised"),
    "at a boundary": ("while True: termination.check()", "raised"),
    "in finalisers": ("while True: Slow()", ""),
    "in a clean-up that hangs": (
        "try: time.sleep(60)\n        finally: termination.cleaning_up(); time.sleep(60)",
        "",
    ),
    "and again in a clean-up": (
        "term(0.9); termination.GRACE = 60\n        try: time.sleep(60)\n"
        "        finally: termination.cleaning_up(); time.sleep(60)",
        "",
    ),
    "twice in one moment": ("term(); time.sleep(60)", "raised"),
    "in a clean-up that takes longer": (
        "try: time.sleep(60)\n"
        "        finally: termination.cleaning_up(seconds=60); time.sleep(1.5); ended('clean')",
        "clean",
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_sigterm_is_obeyed(situation: str):
    body, how = SITUATIONS[situation]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{}", body)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (STATUS, how), done.stderr
    assert time.monotonic() - began < 15
    assert STATUS == 128 + signal.SIGTERM
