"""Shared by the programs: messages, options, processes, folders."""
