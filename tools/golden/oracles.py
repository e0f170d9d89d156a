"""The oracle of a model folder, be it a GPT-2 or a Llama."""
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import oracle
from oracle_llama import Llama

# Between our oracle and transformers in float64, which keeps parts of a Llama in float32.
TOLERANCES = {"gpt2": 1e-9, "llama": 1e-5}


class Oracle:
    """Weights in float64, the configuration, and forward() and greedy() of the model's family."""

    def __init__(self, folder):
        self.folder = folder
        self.weights, self.config = oracle.load(folder)
        self.family = self.config["model_type"]
        is_llama = self.family == "llama"
        self.context = self.config["max_position_embeddings" if is_llama else "n_positions"]
        self.layers = self.config["num_hidden_layers" if is_llama else "n_layer"]
        self.llama = Llama(self.weights, self.config) if is_llama else None
        self.tolerance = TOLERANCES[self.family]

    def forward(self, ids, window=None):
        """Logits [T, V]. window: None (full), a number, or a list with one entry a layer."""
        if self.llama:
            return self.llama.forward(ids, window)
        return oracle.forward(self.weights, self.config, ids, window)

    def greedy(self, ids, new, window=None):
        return oracle.greedy_by(lambda row: self.forward(row, window)[-1], ids, new)

    def of_transformers(self):
        """The same model as transformers runs it, in float64, with its own cache."""
        logging.disable_progress_bar()
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float64).eval()
