"""What can go wrong with the control plane on one machine.

LocalClusterError
├── StartFailed          a component did not come up; names it and shows the end of its log
├── SetUpFailed          the control plane runs, but its manifests or nodes could not be made
└── NotRunning           a running cluster was asked for and there is none
"""

from __future__ import annotations


class LocalClusterError(Exception):
    """Base of all errors of this package but `building.BuildFailed`."""


class StartFailed(LocalClusterError):
    """A component died or did not become ready in time."""


class SetUpFailed(LocalClusterError):
    """The API server refused what the cluster is set up with."""


class NotRunning(LocalClusterError):
    """There is no cluster in this folder."""
