"""Attacks on jplay: every outcome is right, a clear error, or a defect.

``python -m fuzz`` (or ``make fuzz``) runs cases on all cores and keeps a line per case, so that an
interrupted run goes on where it stopped. A case is a kind of attack and a number; with the seed
they decide everything that is random in it.
"""
