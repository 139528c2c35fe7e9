"""The errors of the control plane on one machine.

LocalClusterError
├── BuildFailed          a binary can neither be found nor built; the message says what to do
├── VersionRefused       VERSION names no version that can be built, or not that of the cluster
├── StartFailed          a component did not come up; the message names it and shows the end of its log
├── SetUpFailed          the control plane runs, but its manifests or nodes could not be created
└── NotRunning           no cluster runs in this folder
"""

from __future__ import annotations


class LocalClusterError(Exception):
    """Base of all errors of this package."""


class BuildFailed(LocalClusterError):
    """A binary can neither be found nor built."""


class VersionRefused(LocalClusterError):
    """VERSION names no version that can be built, or not that of the cluster."""


class StartFailed(LocalClusterError):
    """A component died or did not become ready in time."""


class SetUpFailed(LocalClusterError):
    """The API server refused a request of the set-up."""


class NotRunning(LocalClusterError):
    """No cluster runs in this folder."""
