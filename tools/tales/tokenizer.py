"""Learns a byte-level BPE vocabulary and stores it as GPT-2 does: vocab.json and merges.txt."""
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus import END_OF_TEXT

VOCABULARY = 1152  # keeps every fact, with the space before it, one token


def split_into_pieces():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def learn(texts, folder, size=VOCABULARY):
    """Writes vocab.json and merges.txt into `folder`. The last id is the end-of-text token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split_into_pieces()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1, special_tokens=[], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    ids = json.loads((folder / "vocab.json").read_text())
    assert len(ids) == size - 1, f"the texts give {len(ids)} tokens only"
    ids = dict(sorted(ids.items(), key=lambda entry: entry[1]))
    ids[END_OF_TEXT] = len(ids)
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")


def load(folder):
    """A tokenizer that treats `<|endoftext|>` in a text as plain characters."""
    folder = Path(folder)
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"),
                                               str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = split_into_pieces()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def end_of_text_id(folder):
    return json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))[END_OF_TEXT]
