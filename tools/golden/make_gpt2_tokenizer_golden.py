"""Write reference ids and pieces of tricky texts, by Hugging Face's tokenizers, for one GPT-2 vocabulary.

usage: make_gpt2_tokenizer_golden.py FOLDER OUT

FOLDER holds vocab.json and merges.txt (tools/fetch_gpt2_tokenizer.sh fetches GPT-2's). data/golden/tokenizer_gpt2.json
is made by it; any other vocabulary of the kind will do too.
"""

import json
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

# White_Space beyond ASCII.
SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

# Some of the letters and numbers that Unicode 14, 15, 15.1 or 16 added: older libraries take them for signs.
ADDED_LETTERS = (
    "\u0870\u0889\u08b5\u08c8\u0c5d\u0cdd\u170d\u171f\u1b4c\u1c89\u1c8a\u2c2f\u2c5f\u9ffd\ua7c0\ua7cb\ua7d0\ua7d3"
    "\ua7d5\ua7dc\ua7f2\U00010570\U000105c0\U00010780\U00010d4a\U00010ec2\U00010f70\U0001123f\U00011380\U00011390"
    "\U00011740\U00011bc0\U00011f04\U00012f90\U0001342f\U00013460\U000143fa\U00016100\U00016a70\U00016d40\U00018cff"
    "\U0001aff0\U0001b132\U0001df00\U0001df25\U0001e030\U0001e290\U0001e4d0\U0001e5d0\U0001e7e0\U0002a6de\U0002b739"
    "\U0002ebf0\U00031350\U000323af"
)
ADDED_NUMBERS = (
    "\U00010d40\U000116d0\U00011bf0\U00011f50\U00016130\U00016ac0\U00016d70\U0001ccf0\U0001d2c0\U0001e4f0\U0001e5f1"
)

TEXTS = [
    "",
    " ",
    "a",
    "Hello, I am",
    "<|endoftext|>",
    "a<|endoftext|> b<|endoftext|><|endoftext|>",
    "<|endoftext| ><|endoftext|",
    # White space: the last space before a word belongs to the word.
    "a  b",
    "a   b",
    "\n =",
    "x   ",
    "a\n\n b",
    "\t\tx",
    "\r\n\r\nx \t y\v\fz",
    "  leading and trailing  ",
    " \n \n \n",
    "a \n",
    "1  2",
    "!  ?",
    "  '  's",
    "".join("x" + c for c in SPACES),
    "".join("x " + c + c for c in SPACES),
    SPACES + "end",
    # No white space, though some engines think so.
    "x\u180e!",
    "x \u180e y",
    "a\u200bb\ufeffc\u2060d",
    "a\x1cb\x1dc\x1ed\x1fe\x00f",
    # Contractions: lower case and the plain apostrophe only, anywhere.
    "I'LL don't it's",
    "you're we've I'm they'll he'd 'tis 'twas",
    "'s's 's 't're'l'll'v've'x",
    "don\u2019t it\u2019s",
    "'''s",
    "x's9'd!'m",
    # Letters, numbers and signs change piece at each step.
    "abc123!?abc 123 !?",
    "3.14159e-10 1,000,000 0x1F",
    "\u00bd\u00b2\u2460\u2167\u0663\u4e00",
    "x\u00b9y\u00aaz\u00ba",
    "snake_case camelCase kebab-case",
    "-- --- ... ?! $$$ (a) [b] {c}",
    "na\u00efve caf\u00e9 \u00dcber stra\u00dfe \u0130\u0131",
    "cafe\u0301 na\u0308ive",
    "\u0915\u094d\u0937\u093f \u0e01\u0e33\u0e25\u0e31\u0e07",
    "\u65e5\u672c\u8a9e\u306e\u6587\u3001\u300c\u5f15\u7528\u300d\u3067\u3059\u3002",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
    "\u0645\u0631\u062d\u0628\u0627 \u0661\u0662\u0663 \u05e9\u05dc\u05d5\u05dd",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    # Characters of four bytes, joined and modified.
    "\U0001f999",
    "a \U0001f999\U0001f999 b",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \U0001f1eb\U0001f1f7 \u2764\ufe0f",
    "\U0001d400\U0001d7ce\U00010000\U0010ffff\ue000\ufffd\ufffe",
    "x" + ADDED_LETTERS + " " + ADDED_LETTERS,
    "1" + ADDED_NUMBERS + " " + ADDED_NUMBERS,
    "".join("!" + c for c in ADDED_LETTERS + ADDED_NUMBERS),
    # Every byte's character, and repetition.
    "".join(map(chr, range(256))),
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababab bababababab",
    "the the  the\nthe\tthe The THE",
    "!!!!!!!!!!!!!!!!!!!! ===================== ----------",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "Once upon a time there was a brave girl called Zoe. \"I lost my tiny yellow cup,\" she said.",
    "for (int i = 0; i < 10; ++i) {\n    total += values[i];  // sum\n}\n",
    "https://example.org/a?b=c&d=%20#e user@example.org",
    "\ttab\n\n\nlines\r\nends \n  indented",
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    plain = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    special = Tokenizer.from_str(plain.to_str())
    special.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])

    cases = []
    for text in TEXTS:
        pieces = [text[begin:end] for _, (begin, end) in plain.pre_tokenizer.pre_tokenize_str(text)]
        assert "".join(pieces) == text, text
        case = {"text": text, "pieces": pieces, "ids": plain.encode(text).ids}
        if "<|" in text:
            case["special_ids"] = special.encode(text).ids
        cases.append(case)
    source = f"Hugging Face tokenizers {tokenizers.__version__}"
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    out.write_text(f'{{"source": "{source}", "cases": [\n{lines}\n]}}\n')
    print(f"{out}: {len(cases)} texts by {source}")


if __name__ == "__main__":
    main()
