"""One module a command.  Heavy imports stay inside ``run``, so that ``pdlab --help`` is quick."""
