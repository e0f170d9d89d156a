"""Every picture of the book: its name, what it is drawn from and by, and what it says to who cannot see it.

Needs nothing but Python's standard library; the drawing does (tools/book/pictures/requirements.txt).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "book" / "pictures"


@dataclass(frozen=True)
class Picture:
    module: str  # in this folder
    function: str  # in that
    sources: tuple  # paths under data
    alt: str

    def fingerprint(self):
        """SHA-256 of all that the picture was made from, the scripts that draw it included."""
        scripts = ["style", "traces", self.module] + (["strip"] if self.module == "work" else [])
        files = [ROOT / "data" / source for source in self.sources]
        files += [Path(__file__).with_name(f"{script}.py") for script in scripts]
        digest = hashlib.sha256()
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()


def _of_traces(module, alt, *names):
    return Picture(module, "draw", (*(f"results/traces/{name}.json" for name in names), "tales/vocab.json"), alt)


def _of_lengths(function, alt):
    return Picture("lengths", function, ("results/lengths.json",), alt)


PICTURES = {
    "work": _of_traces(
        "work",
        "Tokens fed by each of ten forwards. Without a cache 4, 5, 6, up to 13, together 85, nearly all of them again; "
        "with a cache 4, then 1 each time, together 13.",
        "01_naive", "02_cat_cache",
    ),
    "01_naive_strip": _of_traces(
        "strip",
        "Ten forwards of chapter 1. Each feeds the whole sequence, 4 to 13 tokens; none is kept, so 0 bytes are held.",
        "01_naive",
    ),
    "01_naive_mask": _of_traces(
        "mask", "The causal mask of 13 tokens: a triangle. Each token sees itself and those before it.", "01_naive"
    ),
    "02_cat_cache_strip": _of_traces(
        "strip",
        "Ten forwards of chapter 2. The prompt fills 4 slots; then every forward adds one slot at the end, and the "
        "bytes held grow with it.",
        "02_cat_cache",
    ),
    "03_masked_offsets_strip": _of_traces(
        "strip",
        "Eight forwards of chapter 3. The prompt, three tokens one by one, then a second turn: four tokens in one "
        "forward after seven held; then one by one again.",
        "03_masked_offsets_turn",
    ),
    "03_masked_offsets_mask": _of_traces(
        "mask",
        "The mask of four new tokens after P = 7 committed ones. All four see the seven old keys; among themselves "
        "they see a triangle.",
        "03_masked_offsets_turn",
    ),
    "04_preallocated_strip": _of_traces(
        "strip",
        "Eight forwards of chapter 4. Sixteen slots are there from the first forward on; tokens fill them from the "
        "left, the bytes held never change.",
        "04_preallocated_turn",
    ),
    "04_preallocated_mask": _of_traces(
        "mask",
        "The mask of four new tokens after P = 7 committed ones in a buffer of 16. The seven old keys are seen, the new "
        "ones in a triangle; the five slots not yet written are never seen.",
        "04_preallocated_turn",
    ),
    "05_sliding_window_strip": _of_traces(
        "strip",
        "Eight forwards of chapter 5 with a window of 6. Once five tokens are held, the oldest leaves with every new "
        "one. A turn of four tokens takes nine slots for one forward, and four leave.",
        "05_sliding_window_turn",
    ),
    "05_sliding_window_mask": _of_traces(
        "mask",
        "The mask of four new tokens on a full window of 6: a diagonal band. Each token sees six keys, itself the last; "
        "each row's band begins one key later.",
        "05_sliding_window_turn",
    ),
    "06_ring_buffer_strip": _of_traces(
        "strip",
        "Eight forwards of chapter 6 with a window of 6. Nothing moves: once six tokens are held, each new one takes the "
        "slot of the oldest, one further to the right every time. A turn of four tokens stands behind the six slots for "
        "one forward.",
        "06_ring_buffer_turn",
    ),
    "06_ring_buffer_mask": _of_traces(
        "mask",
        "The mask of four new tokens on a full ring of 6. The old keys' columns are out of order, so what a token sees "
        "of them is not one run; each sees six keys, itself the last.",
        "06_ring_buffer_turn",
    ),
    "07_ragged_batch_strip": _of_traces(
        "strip",
        "Two rows of chapter 7, forward by forward. Both prompts are fed in one forward, a long one and a short one; then "
        "each row gets one token at a time and grows from its own length.",
        "07_ragged_batch_rows",
    ),
    "07_ragged_batch_mask": _of_traces(
        "mask",
        "The mask of the short row in the first forward: its tokens see a triangle; the columns that only the longer row "
        "needs are seen by none of them.",
        "07_ragged_batch_rows",
    ),
    "08_paged_pool": Picture(
        "pool",
        "draw",
        ("results/runs/pool.txt",),
        "A pool of six pages after each of ten operations. A fills one page and half of another; B forks it and both "
        "pages belong to both; A's next token is written to a copy of the half page. When both have left, full pages stay "
        "cached. C begins as A did and adopts the first of them. A new A needs four pages, and one that was cached is "
        "taken for it.",
    ),
    "09_int8_mask": _of_traces(
        "mask",
        "The mask of a turn's tokens on full and open groups of four. The first columns are codes, the last ones tokens as they "
        "came. Each query sees the groups before its own in codes and its own group as it came, and no position twice.",
        "09_int8_turn",
    ),
    "10_layer_windows_strip": _of_traces(
        "strip",
        "Eight forwards of chapter 10, two rows each: a layer with sixteen slots and one with a ring of six, at the same "
        "positions. The large one fills from the left and keeps everything; the ring has gone round after six tokens, and a "
        "turn of four tokens stands beside it for one forward.",
        "10_layer_windows_turn",
    ),
    "11_offload_schedule": Picture(
        "schedule",
        "draw",
        ("results/runs/schedule.txt",),
        "Two decode steps of chapter 11 with two buffers for four layers. While layer 0 computes in buffer 0, layer 1 comes "
        "into buffer 1; while layer 1 computes there, layer 2 comes into buffer 0, and so on. At commit nobody looks, and "
        "layer 0 comes back for the next step. Each layer writes its one new token.",
    ),
    "windows_cache_time": Picture(
        "lengths",
        "by_window",
        ("results/windows.json",),
        "Milliseconds inside the cache per token against the window, 128, 256 and 512. The window that shifts rises with "
        "W; the ring stays flat near the bottom.",
    ),
    "lengths_speed": _of_lengths(
        "speed",
        "Decode tokens per second against the prompt's length, 32 to 992 tokens. Without a cache the rate falls towards "
        "nothing; the chapters with a cache lie close together and fall a little.",
    ),
    "lengths_cache_time": _of_lengths(
        "cache_time",
        "Milliseconds inside the cache per token against the prompt's length. Both caches that use torch::cat rise in a "
        "straight line, the preallocated ones stay flat near zero; the shifting window of 256 steps up once it is full "
        "and stays there, the ring of 256 does not.",
    ),
    "lengths_memory": _of_lengths(
        "memory",
        "Megabytes of keys and values against the prompt's length, held and at the peak of a forward, a panel a "
        "chapter. Those that grow rise with the length; those with buffers hold the same at any; the window of 256 "
        "holds a quarter, but its peak rises with a prompt that is fed whole.",
    ),
}


def markdown(name, text):
    """The picture as a Markdown image, for a text at the path `text` under the root."""
    up = "../" * (len(Path(text).parts) - 1)
    return f"![{PICTURES[name].alt}]({up}book/pictures/{name}.svg)"
