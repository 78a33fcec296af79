"""Probing questions of a generated conversation (paper section 2.3, Listings 1 to 19, Appendix D).

`making.make_probes` is the way through: candidates from the plan, their turns, question and rubric, automatic checks,
a reviewer's decisions, two per ability.
"""
