"""The command line: a module for what every command reads, one for how commands end, and the commands."""
