"""The command line: arguments, one library call, one renderer."""
