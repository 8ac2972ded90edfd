"""Helpers of the command-line programs: messages, options, processes, folders."""
