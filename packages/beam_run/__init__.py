"""The top layer: the main job, its costs, its archive, and the cluster it may run on."""
