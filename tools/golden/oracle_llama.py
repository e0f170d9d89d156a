"""A float64 Llama with an explicit mask: the reference that every cache of a Llama is compared with.

No cache, one row at a time, every step written out, norms and rotary angles in float64 as well.
make_golden_llama.py checks it against transformers, which computes those two in float32 whatever the
model's type: so the two agree to about 1e-5, not to the last digit.

What a Llama does otherwise than GPT-2:
- RMSNorm: divide by the root of the mean square; no mean is taken off, nothing is added.
- Rotary positions: no position is added to a token; queries and keys are turned by an angle that grows
  with their position, so that their product depends on the distance alone.
- Grouped queries: several query heads read one key-value head.
- SwiGLU: the inner values are gated, silu(gate) * up. No biases anywhere.

Attention sinks (StreamingLLM): a query sees the first S tokens, the sinks, and the last W, itself
among them. Positions are places in this list: the keys are turned as if the kept tokens were all there
is, so no distance is ever larger than S + W - 1.
"""
import torch

from oracle import attention, band


def kept(position, window, sinks):
    """The positions that the query at `position` sees: the sinks and the last `window`, in order."""
    return [p for p in range(position + 1) if p < sinks or p > position - window]


class Llama:
    """The steps of the model; mutants_llama.py replaces them one at a time."""

    def __init__(self, weights, config):
        self.weights, self.config = weights, config
        self.width = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.key_value_heads = config["num_key_value_heads"]
        self.layers = config["num_hidden_layers"]
        self.head_size = self.width // self.heads

    def weight(self, name):
        return self.weights[name].double()

    def linear(self, x, name):  # weights are stored [out, in]
        return x @ self.weight(name + ".weight").T

    def norm(self, x, name):
        mean_square = x.square().mean(-1, keepdim=True)
        return x / (mean_square + self.config["rms_norm_eps"]).sqrt() * self.weight(name + ".weight")

    def rotate(self, x, positions):
        """Turns x [H, T, D]: at position p the pair (x[i], x[i + D/2]) by the angle p / theta^(2i/D)."""
        half = x.shape[-1] // 2
        speed = self.config["rope_theta"] ** (-torch.arange(half).double() / half)
        angle = positions.double()[:, None] * speed
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * angle.cos() - second * angle.sin(),
                          second * angle.cos() + first * angle.sin()], -1)

    def share(self, x):
        """Key-value heads [G, T, D] as the query heads read them, [H, T, D]: head h reads h // (H / G)."""
        return x.repeat_interleave(self.heads // self.key_value_heads, 0)

    def attend(self, query, key, value, positions, visible):
        """Attention with positions that run on: query [H, T, D], key and value [G, T, D]."""
        key = self.rotate(key, positions)
        return attention(self.rotate(query, positions), self.share(key), self.share(value), visible)

    def attend_in_cache(self, query, key, value, window, sinks):
        """Attention with sinks, one query after another: positions are places among the kept tokens."""
        rows = []
        for position in range(query.shape[1]):
            seen = kept(position, window, sinks)
            places = torch.arange(len(seen))
            one_query = self.rotate(query[:, position:position + 1], places[-1:])
            keys = self.share(self.rotate(key[:, seen], places))
            all_of_them = torch.ones(1, len(seen), dtype=torch.bool)
            rows.append(attention(one_query, keys, self.share(value[:, seen]), all_of_them))
        return torch.cat(rows, 1)

    def mlp(self, x, block):
        gate = torch.nn.functional.silu(self.linear(x, block + "mlp.gate_proj"))
        return self.linear(gate * self.linear(x, block + "mlp.up_proj"), block + "mlp.down_proj")

    def forward(self, ids, window=None, sinks=None, positions=None, visible=None, past=None):
        """Logits [T, V] of one row of ids.

        window: None (all earlier keys), a number, or a list with one entry a layer.
        sinks: None (positions run on), or S with a window, and positions by place in the cache.
        positions, visible: replace 0..T-1 and the band.
        past: a list to which every layer's keys (before their rotation) and values [G, T, D] are added.
        """
        length = len(ids)
        positions = torch.arange(length) if positions is None else torch.tensor(positions)
        x = self.weight("model.embed_tokens.weight")[torch.tensor(ids)]
        for layer in range(self.layers):
            block = f"model.layers.{layer}."
            layer_window = window[layer] if isinstance(window, (list, tuple)) else window
            normed = self.norm(x, block + "input_layernorm")
            query, key, value = (
                self.linear(normed, f"{block}self_attn.{part}_proj")
                .view(length, -1, self.head_size).transpose(0, 1) for part in "qkv")
            if past is not None:
                past.append((key, value))
            if sinks is None:
                layer_visible = band(length, layer_window) if visible is None else visible
                mixed = self.attend(query, key, value, positions, layer_visible)
            else:
                mixed = self.attend_in_cache(query, key, value, layer_window, sinks)
            mixed = mixed.transpose(0, 1).reshape(length, self.width)
            x = x + self.linear(mixed, block + "self_attn.o_proj")
            x = x + self.mlp(self.norm(x, block + "post_attention_layernorm"), block)
        return self.linear(self.norm(x, "model.norm"), self.output_weights())

    def output_weights(self):
        return "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
