"""Work on many machines: the workers of a dask cluster take the place of this machine's processes."""

from __future__ import annotations

from dataclasses import replace

from beamlib.errors import UserError
from beamlib.plugins import plugins, register


def use_cluster(given: str) -> None:
    """Use the cluster that `--cluster` names for all further work; with an empty name, use this machine's processes."""
    register(replace(plugins(), cluster=None))
    if not given:
        return
    try:
        from beam_run.cluster.pool import DaskCluster
    except ImportError as error:
        raise UserError(
            f"--cluster: {error.name} is not installed; run pip install 'beamlib[cluster]' (in a checkout: "
            ".venv/bin/pip install -e '.[cluster]')."
        ) from None
    register(replace(plugins(), cluster=DaskCluster.named(given)))
