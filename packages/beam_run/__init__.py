"""The top layer: the main job with its notebooks, its costs, its archive, and the cluster it may run on."""

PAPER_NOTEBOOKS = ("00_paper",)
"""The notebook that is opened first: what was published, beside the run over all of its sizes."""

GENERATION = ("01_plans", "02_user_turns", "03_assistant_turns", "04_probing_questions")
MAIN_NOTEBOOK = "06_main_results"
EVALUATION = (
    "05_memory", MAIN_NOTEBOOK, "07_retrieval_budget", "08_dense_vs_sparse", "09_ablation", "14_vectors_and_readagent",
)  # fmt: skip
SUITE_NOTEBOOKS = ("10_memorycode", "11_meme")
"""Notebooks on other benchmarks, once per run."""

FIELD_NOTEBOOKS = ("12_field", "13_judges")
"""Notebooks on published results of others, once per run, from shipped numbers."""

FIELD_PART = "field"
"""The part of a run folder that these write to."""
