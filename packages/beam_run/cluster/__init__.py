"""Many machines: conversations are worked on by the workers of a dask cluster, in place of processes of one machine."""
