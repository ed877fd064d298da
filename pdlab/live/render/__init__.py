"""A plan written out as the commands of somebody else's machines: nothing here starts anything.

``paper`` says which server stands where and with which command; a target (``local``, ``slurm``,
``kubernetes``, ``ray``) puts that into files; ``flags`` explains every flag; ``verify`` reads the
finished files again and asks the engine's own argument parser about every command in them.
"""
