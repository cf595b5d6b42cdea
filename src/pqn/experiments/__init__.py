"""The paper's experiments. Those that are not trainings (Baird, the lemma, DeepSea) have their code here."""
