"""Tables that follow from formulas alone: memory, and operations a token."""

# Name, parameters, bytes of a parameter, and what a token's keys and values take: 2 * layers * width * bytes.
# 6,738,415,616 parameters, 32 layers, width 4,096: Llama 2 7B (H. Touvron and others, 2023).
PLANNED = [
    ("GPT-2 124M, float32", 124_439_808 * 4, 2 * 12 * 768 * 4, (256, 1024)),
    ("7B-class, float16", 6_738_415_616 * 2, 2 * 32 * 4096 * 2, (1024, 4096)),
]


def planning():
    """How many sequences of which length fit beside the weights."""
    heads = [f"{name},<br>{length:,} tokens each" for name, _, _, lengths in PLANNED for length in lengths]
    lines = ["| memory | " + " | ".join(heads) + " |", "|--:|" + "--:|" * len(heads)]
    for memory in (8, 24, 64):
        cells = []
        for _, weights, token, lengths in PLANNED:
            left = memory * 10**9 - weights
            cells += [f"{left // (token * length):,}" if left > 0 else "the weights do not fit" for length in lengths]
        lines.append(f"| {memory} GB | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sizes():
    """The parts of the planning example's formula."""
    lines = ["| | weights | a token's keys and values |", "|---|--:|--:|"]
    for name, weights, token, _ in PLANNED:
        lines.append(f"| {name} | {weights / 1e9:.2f} GB | {token:,} bytes |")
    return "\n".join(lines)


# GPT-2 124M: layers, width, vocabulary.
L, E, V = 12, 768, 50_257


def _attention(tokens):
    """Multiply-adds of queries times keys and weights times values, all heads together."""
    return L * 2 * tokens * E


def multiply_adds():
    """What the forward for the n-th token costs without a cache and with one, in multiply-adds."""
    linear, head = L * 12 * E * E, E * V
    lines = ["| n | without: linear layers | attention | with: linear layers | attention | both: head | without / with |"]
    lines.append("|--:|" + "--:|" * 6)
    for n in (4, 50, 203, 1023):
        without = (n * linear, n * _attention(n))  # hidden pairs too: they are computed and then masked
        cached = (linear, _attention(n))
        ratio = (sum(without) + head) / (sum(cached) + head)
        cells = [f"{count / 1e6:,.1f} M" for count in (*without, *cached, head)]
        lines.append(f"| {n:,} | " + " | ".join(cells) + f" | {ratio:.0f} |")
    return "\n".join(lines)


def bytes_copied(tokens=(200, 1024)):
    """What a cache that copies its past writes in all, for GPT-2 124M in float32."""
    token = 2 * L * E * 4
    lines = ["| tokens | torch::cat writes in all | in place writes in all |", "|--:|--:|--:|"]
    for n in tokens:
        lines.append(f"| {n:,} | {token * n * (n + 1) // 2 / 1e9:.2f} GB | {token * n / 1e9:.3f} GB |")
    return "\n".join(lines)


def a_token():
    """A token's keys and values in models that tutorials mix up, float16: 2 * layers * width * 2 bytes."""
    lines = ["| model | layers | width | bytes a token | in MiB |", "|---|--:|--:|--:|--:|"]
    for name, layers, width in (("7B-class (Llama 2 7B)", 32, 4096), ("13B-class (Llama 2 13B)", 40, 5120)):
        token = 2 * layers * width * 2
        lines.append(f"| {name} | {layers} | {width:,} | {token:,} | {token / 2**20:.2f} |")
    return "\n".join(lines)
