#!/usr/bin/env python3
"""Writes seeded tales whose ending repeats facts that only the opening told.

    python3 tools/tales/corpus.py --count 5

How a choice is made: the options are put in an order that depends on the context (a hash of the
place in the tale and of what stands before it), and option i is drawn with weight 1 / (i + 1)^1.3.
So one option is clearly the likeliest, which gives greedy decoding clean margins, and it is another
one in another context, which gives variety.

How the facts stay unguessable: each is drawn around a word of the opening that the rest of the tale
never repeats. A model that cannot see the opening can only guess.
"""
import argparse
import hashlib
import random
import re
from dataclasses import dataclass

import words

END_OF_TEXT = "<|endoftext|>"
SKEW = 1.3  # exponent of the weights: the likeliest option leads the second by 1.3 ln 2 = 0.9 nat
FULL, SHORT, DRILL = "full", "short", "drill"  # all of the filler, little of it, none of it


@dataclass
class Recall:
    """A fact's last mention in the opening and its first repetition in the ending (characters)."""
    mention: int
    repetition: int
    word: str


@dataclass
class Tale:
    opening: str
    filler: str
    ending: str
    facts: dict    # kind -> word
    recalls: dict  # kind -> Recall, for the facts that both the opening and the ending tell

    @property
    def text(self):
        return " ".join(part for part in (self.opening, self.filler, self.ending) if part)


def weights(count):
    return [1.0 / (rank + 1) ** SKEW for rank in range(count)]


def digest(text):
    return hashlib.md5(text.encode()).digest()


class Teller:
    """Tells tale after tale. Remembers the last two sentences, on which the next choice depends."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.last = "first"
        self.last_two = "first"

    def tell(self, length=FULL):
        self.words, self.parts = {}, {"opening": [], "filler": [], "ending": []}
        self.length = length
        plot = self.choose("plot", [words.LOST, words.GIFT], self.last_two)
        self.tell_opening(plot)
        self.words["animal"] = self.choose("animal", words.ANIMALS, self.last)
        self.words["spot"] = self.random.choice(words.SPOTS)
        if length != DRILL:
            self.tell_filler(plot)
        self.part = "ending"
        self.say("find", plot, words.FIND[plot])
        self.say("home", plot, words.GO_HOME[plot])
        self.say("close", plot, words.CLOSE[plot])
        return self.finished_tale()

    def tell_opening(self, plot):
        self.part = "opening"
        girl = self.random.random() < 0.5
        self.words.update(girl="girl" if girl else "boy", she="she" if girl else "he",
                          her="her" if girl else "his", them="her" if girl else "him")
        options = words.OPENING[plot]
        index = self.choose(f"opening{plot}", range(len(options)), self.last_two)
        adjective = self.choose("adj", words.HERO_ADJECTIVES, f"{plot}{index}{girl}")
        place_adjective = self.choose("padj", words.PLACE_ADJECTIVES, f"{plot}{index}")
        object_adjective = self.choose("oadj", words.OBJECT_ADJECTIVES, f"{plot}{index}")
        self.words.update(adj=adjective, padj=place_adjective, oadj=object_adjective)
        self.words["name"] = self.choose_fact(
            words.GIRLS if girl else words.BOYS, words.HERO_ADJECTIVES.index(adjective))
        self.words["place"] = self.choose_fact(
            words.PLACES, 2 * words.PLACE_ADJECTIVES.index(place_adjective))
        self.words["colour"] = self.choose_fact(
            words.COLOURS, 2 * words.OBJECT_ADJECTIVES.index(object_adjective))
        self.words["object"] = self.choose_fact(words.OBJECTS, 8 * plot + index)
        self.words["relative"] = self.choose_fact(words.RELATIVES, index)
        self.write(f"opening{plot}{index}", options[index])

    def tell_filler(self, plot):
        self.part = "filler"
        full = self.length == FULL
        self.say("start", plot, words.START[plot])
        if full:
            if self.perhaps("react"):
                self.say("react", plot, words.REACT[plot])
            self.choose_food()
            self.say("set_out", "", words.SET_OUT)
        meetings = self.random.choices([1, 2], [3, 2])[0] if full else 1
        for meeting in range(meetings):
            if full and self.perhaps("on_the_way"):
                self.choose_food()
                self.say("on_the_way", meeting, words.ON_THE_WAY[meeting])
            self.meet_animal(meeting)
            if full:
                self.say("ask", plot, words.ASK[plot])
            if meeting + 1 < meetings:
                others = [animal for animal in words.ANIMALS if animal != self.words["animal"]]
                self.words["next"] = self.choose("next", others, self.words["animal"])
                self.say("sent_on", plot, words.SENT_ON[plot])
        if full and self.perhaps("help"):
            self.choose_food()
            self.say("help", "", words.HELP)
        self.words["spot"] = self.choose("spot", words.SPOTS, self.words["animal"])
        self.say("answer", plot, words.ANSWER[plot])
        if full and self.perhaps("late", 0.4):
            self.say("late", "", words.LATE)

    def meet_animal(self, meeting):
        if meeting == 0:
            animal = self.choose("animal", words.ANIMALS, self.last_two)
            adjective = self.choose("aadj", words.ANIMAL_ADJECTIVES, animal + self.last)
            self.words.update(animal=animal, aadj=adjective)
            self.say("meet", "", words.MEET)
        else:
            self.words["animal"] = self.words["next"]
            self.say("meet_next", "", words.MEET_NEXT)

    def choose_food(self):
        self.words["food"] = self.choose("food", words.FOODS, self.last)

    def choose(self, slot, options, context):
        order = list(options)
        random.Random(digest(f"{slot}|{context}")).shuffle(order)
        return self.random.choices(order, weights(len(order)))[0]

    def choose_fact(self, options, first):
        """As choose, with a rotation for an order, so that over all tales no option is a favourite."""
        order = options[first % len(options):] + options[:first % len(options)]
        return self.random.choices(order, weights(len(order)))[0]

    def perhaps(self, slot, share=0.6):
        likely = digest(f"{slot}?{self.last}")[0] < 256 * share
        return self.random.random() < (0.75 if likely else 0.25)

    def say(self, slot, variant, options):
        index = self.choose(f"{slot}{variant}", range(len(options)), self.last)
        self.write(f"{slot}{variant}{index}", options[index])

    def write(self, key, template):
        def word(match):
            name = match.group(1)
            value = self.words[name[0].lower() + name[1:]]
            return value[0].upper() + value[1:] if name[0].isupper() else value
        self.parts[self.part].append(re.sub(r"\{(\w+)\}", word, template))
        self.last_two = f"{self.last}|{key}"
        self.last = key

    def finished_tale(self):
        opening, filler, ending = (" ".join(self.parts[p]) for p in ("opening", "filler", "ending"))
        leaked = words.FACT_WORDS & set(re.findall(r"\w+", filler))
        assert not leaked, f"the filler tells a fact: {leaked}"
        facts = {kind: self.words[kind] for kind in words.FACTS}
        tale = Tale(opening, filler, ending, facts, {})
        ending_at = len(tale.text) - len(ending)
        for kind, word in facts.items():
            told = [m.start() for m in re.finditer(rf"\b{word}\b", opening)]
            repeated = re.search(rf"\b{word}\b", ending)
            if told and repeated:
                tale.recalls[kind] = Recall(told[-1], ending_at + repeated.start(), word)
        return tale


def full_tales(seed, count):
    teller = Teller(seed)
    return [teller.tell() for _ in range(count)]


def easy_tales(seed, count, drills=0.7):
    """Short tales for the first training steps; the share `drills` has no filler at all."""
    teller = Teller(seed)
    return [teller.tell(DRILL if teller.random.random() < drills else SHORT) for _ in range(count)]


def main():
    parser = argparse.ArgumentParser(description="prints some tales")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--easy", action="store_true", help="tales for the first training steps")
    args = parser.parse_args()
    for tale in (easy_tales if args.easy else full_tales)(args.seed, args.count):
        print(tale.text, end="\n\n")


if __name__ == "__main__":
    main()
