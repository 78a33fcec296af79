"""Probing questions of a generated conversation (paper section 2.3, Listings 1 to 19, Appendix D)."""
