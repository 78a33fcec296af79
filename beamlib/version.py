"""The version of this package, apart from `beamlib` itself: modules that `beamlib` offers name it as well."""

__version__ = "0.1.0"
