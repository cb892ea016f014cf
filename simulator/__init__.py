"""An honest local Feishu: the open platform as tests, `make dev` and benchmarks need it, on this machine only."""

from simulator.app import create_app
from simulator.settings import BadSettings, Settings
from simulator.state import Simulator

__all__ = ["BadSettings", "Settings", "Simulator", "create_app"]
