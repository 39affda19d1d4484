"""What every test has: the plugin that we ship, with loops of virtual time."""

import signal

pytest_plugins = ["dynamo_operator.testing.pytest_plugin"]

# A shell's background job ignores SIGINT, and so would every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
