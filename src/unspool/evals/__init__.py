"""Evaluations: problems with known answers, put to a model, judged, and reported with intervals."""
