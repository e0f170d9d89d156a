#!/usr/bin/env python3
"""Makes tokenizer references with the Hugging Face `tokenizers` package.

    python3 tools/golden/make_tokenizer_golden.py --vocabulary data/tales \\
        --out data/golden/tokenizer_tales.json

For each text: the pieces that GPT-2's pre-tokenizer cuts it into, which hold for every vocabulary,
and the ids with the tales vocabulary. `<|endoftext|>` in a text is plain characters.
"""
import argparse
import json
import sys
from pathlib import Path

from tokenizers import pre_tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tales"))
import tokenizer as vocabulary

TEXTS = {
    "empty": "",
    "plain": "Hello, I am",
    "a tale": "Once upon a time there was a brave girl named Zoe. She had a tiny red kite!",
    "end of text as characters": "<|endoftext|>",
    "end of text inside": "The end.<|endoftext|>Once upon a time",
    "two spaces": "a  b",
    "newline, space": "\n =",
    "trailing spaces": "x   ",
    "leading spaces": "   x",
    "two newlines, space": "a\n\n b",
    "tabs": "\t\tx",
    "tab, space, tab": "a\t \tb",
    "contractions": "I'LL don't it's",
    "every contraction": "he's can't you're I've I'm we'll he'd",
    "contractions in capitals": "HE'S CAN'T YOU'RE I'VE I'M WE'LL HE'D",
    "apostrophes alone": "'s 't 'x ' '' ''s rock'n'roll",
    "curly apostrophe": "don\u2019t it\u2019s",
    "U+180E is not white space": "x\u180e!",
    "U+180E between spaces": "a \u180e b",
    "no-break space": "a\u00a0b \u00a0c\u00a0",
    "next line U+0085": "a\u0085b \u0085c\u0085\u0085d",
    "em space": "a\u2003b \u2003c\u2003 d",
    "ideographic space": "\u3053\u3093\u306b\u3061\u306f\u3000\u4e16\u754c\u3000",
    "all white space": "a\u0009\u000b\u000cb\u001cc\u1680d\u2000e\u2009f\u200a\u2028g\u2029\u202fh\u205fi",
    "zero width is not white space": "a\u200bb \u200b c\ufeffd\u2060e",
    "carriage return": "one\r\ntwo\r\n\r\nthree\r",
    "only white space": " \n\t\r\n  ",
    "one space": " ",
    "numbers": "1 22 333 4444 3.14 1,000,000 a1b2 0x1F",
    "numerals of kind Nd, No, Nl": "\u0661\u0662\u0663 \u0967\u0968 \u00bd\u00b2\u00b3 \u2460\u2461 \u2163\u216b x\u00b2 \u3007",
    "accents": "caf\u00e9 na\u00efve \u00dcber \u0141\u00f3d\u017a",
    "combining marks": "cafe\u0301 n\u0303 \u0915\u094d\u0937\u093f \u0e44\u0e17\u0e22\u0e33",
    "Cyrillic, Greek, Arabic": "\u041f\u0440\u0438\u0432\u0435\u0442 \u03b3\u03b5\u03b9\u03ac \u0645\u0631\u062d\u0628\u0627",
    "letters of every kind": "\u01c5 \u02b0\u02b1 \u00aa \u05d0\u05d1 \ud55c\uad6d\uc5b4",
    "llama emoji": "\U0001f999",
    "emoji in a sentence": "A \U0001f999 and a \U0001f409!\U0001f389\U0001f389 ok",
    "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1eb\U0001f1ee",
    "letters beyond U+FFFF": "\U0001d400\U0001d401 \U00010348x \U0001d7d8\U0001d7d9",
    "unassigned and private": "\u0378 \ue000 \U0010ffff \ufffd",
    "punctuation": "...!?;: -- (a)[b]{c} \"q\" a_b __init__ #1 $5 50% ~^`|\\/",
    "underscore and digits": "snake_case_2 CamelCase3",
    "code": "def f(x):\n    return x  # no\n\n\tend",
    "a long word": "a" * 300,
    "a word of many kinds": "Donaudampfschifffahrtsgesellschaftskapit\u00e4n" * 3,
    "control characters": "a\u0000b\u0001 \u007f\u001b[0m",
    "Latin-1, all of it": "".join(map(chr, range(0xa1, 0x100))),
    "ASCII, all of it": "".join(map(chr, range(0x00, 0x80))),
    "mixed scripts": "Hello\u4e16\u754c123abc\u0661!\u00a0?",
}


def pieces(splitter, text):
    """The text of each piece. The library writes a byte as one letter of its own alphabet."""
    letters = {letter: byte for byte, letter in enumerate(byte_letters())}
    raw = [bytes(letters[letter] for letter in piece).decode("utf-8")
           for piece, _ in splitter.pre_tokenize_str(text)]
    assert "".join(raw) == text
    return raw


def byte_letters():
    """GPT-2's alphabet: printable bytes stand for themselves, the others for U+0100 onwards."""
    printable = {*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=Path, default=Path("data/tales"))
    parser.add_argument("--out", type=Path, default=Path("data/golden/tokenizer_tales.json"))
    args = parser.parse_args()
    tokenizer = vocabulary.load(args.vocabulary)
    splitter = vocabulary.split_into_pieces()
    assert set(byte_letters()) == set(pre_tokenizers.ByteLevel.alphabet())
    cases = []
    for name, text in TEXTS.items():
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, name
        cases.append({"name": name, "text": text, "pieces": pieces(splitter, text), "ids": ids})
    about = ("Hugging Face tokenizers, ByteLevel(add_prefix_space=False). pieces: what the "
             "pre-tokenizer cuts, the same for every vocabulary. ids: with the tales vocabulary")
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    args.out.write_text(f'{{"about": {json.dumps(about)},\n"cases": [\n{lines}\n]}}\n')
    print(f"{args.out}: {len(cases)} texts")


if __name__ == "__main__":
    main()
