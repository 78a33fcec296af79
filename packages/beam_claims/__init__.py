"""Audits: the claims of the paper recomputed from its printed tables; defective questions and the errata."""
