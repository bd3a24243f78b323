"""The optimization: J-Play as functions of arrays, wherever the samples are."""
