"""Deep ensembles: networks that are trained apart and predict together."""

from bayesian_layers.ensemble.ensemble import Ensemble

__all__ = ["Ensemble"]
