"""Configuration: one TOML file for nodes and rendezvous servers, with overrides from the environment.

>>> from hopline.config import read_configuration
>>> configuration = read_configuration(None, {"HOPLINE_NODE__CLUSTER__HEARTBEAT_INTERVAL": "2"})
>>> configuration.network().cluster.heartbeat_interval
2.0
"""

from hopline.config.configuration import Configuration, read_configuration
from hopline.config.curve_file import CurveFileError, read_curve_pair, write_curve_pair
from hopline.config.errors import ConfigurationError
from hopline.config.origins import DEFAULT_FILE, FILE_VARIABLE, Given, given
from hopline.config.schema import SECTIONS, CurveSection, DomainSection, MetricsSection, SecuritySection

__all__ = [
    "DEFAULT_FILE",
    "FILE_VARIABLE",
    "SECTIONS",
    "Configuration",
    "ConfigurationError",
    "CurveFileError",
    "CurveSection",
    "DomainSection",
    "Given",
    "MetricsSection",
    "SecuritySection",
    "given",
    "read_configuration",
    "read_curve_pair",
    "write_curve_pair",
]
