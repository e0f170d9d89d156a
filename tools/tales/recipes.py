"""The two families of tales models, GPT-2 and Llama: what each is made of and how it is trained.

What matters in a recipe, found by trial:
- Weights start three times wider than is usual (0.06, not 0.02): else recall comes very late.
- First short tales, where a fact and its repetition are near each other; each row starts at a random
  position, so that all of GPT-2's position embeddings learn (a Llama sees only distances, and does
  not notice). Then full tales over the whole context.
- A repeated fact weighs 4 times as much in the loss as any other token.
- Full attention only: nothing teaches the model to pass facts on through nearer tokens, so a model
  that runs with a window really forgets them.
"""
import json
from dataclasses import dataclass

from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


@dataclass
class Recipe:
    seed: int = 7
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 512
    initial_deviation: float = 0.06
    steps: int = 1600
    easy_steps: int = 400         # on short tales
    easy_length: int = 96
    tokens_per_step: int = 4096
    warm_up_steps: int = 100
    learning_rate: float = 2e-3
    final_learning_rate: float = 1e-4
    betas: tuple = (0.9, 0.98)
    weight_decay: float = 0.1
    largest_gradient: float = 1.0
    fact_weight: float = 4.0


@dataclass
class Gpt2Recipe(Recipe):
    def new_model(self, vocabulary):
        # gelu_pytorch_tanh is gelu_new in one fused operation; the stored config names gelu_new.
        return GPT2LMHeadModel(GPT2Config(
            vocab_size=vocabulary, n_positions=self.context, n_embd=self.width,
            n_layer=self.layers, n_head=self.heads, activation_function="gelu_pytorch_tanh",
            initializer_range=self.initial_deviation, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=vocabulary - 1, eos_token_id=vocabulary - 1))

    def describe(self, config):
        """Puts right what save_pretrained wrote into config.json."""
        config["activation_function"] = "gelu_new"


@dataclass
class LlamaRecipe(Recipe):
    """No tale is longer than the context, so distances beyond it are new to the trained model."""
    context: int = 256
    key_value_heads: int = 2
    inner_width: int = 344
    rope_theta: float = 10000.0

    def new_model(self, vocabulary):
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=vocabulary, max_position_embeddings=self.context, hidden_size=self.width,
            intermediate_size=self.inner_width, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.key_value_heads,
            rope_theta=self.rope_theta, rms_norm_eps=1e-5, tie_word_embeddings=True,
            initializer_range=self.initial_deviation, attention_dropout=0.0,
            bos_token_id=vocabulary - 1, eos_token_id=vocabulary - 1))

    def describe(self, config):
        """Names rope_theta as the configurations of Llama 2 and 3 do; transformers reads both."""
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]


RECIPES = {"gpt2": Gpt2Recipe, "llama": LlamaRecipe}


def correct_config(recipe, folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    recipe.describe(config)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
