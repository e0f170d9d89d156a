"""The words and sentences that the tales are made of.

A placeholder in braces stands for a word of the tale; one with a capital letter begins a sentence.
FACTS are told in the opening and again in the ending. No filler sentence may contain one.
"""

GIRLS = "Lily Mia Anna Rosa Emma Nora Ella Zoe Ivy Clara Lucy Molly".split()
BOYS = "Tom Ben Sam Max Leo Jack Finn Hugo Oscar Peter Noah Theo".split()
COLOURS = "red blue green yellow white black pink purple golden silver brown grey".split()
OBJECTS = ("kite ball hat scarf drum boat lantern bell ring book basket cup whistle doll key "
           "button").split()
PLACES = ("forest river lake hill meadow harbour mill castle market bridge garden "
          "lighthouse").split()
RELATIVES = "grandmother grandfather aunt uncle cousin teacher".split()

FACTS = {"name": GIRLS + BOYS, "colour": COLOURS, "object": OBJECTS, "place": PLACES,
         "relative": RELATIVES}
FACT_WORDS = frozenset(word for words in FACTS.values() for word in words)

HERO_ADJECTIVES = "little kind brave clever quiet cheerful gentle shy".split()
PLACE_ADJECTIVES = "misty lonely windy sunny beautiful famous".split()
OBJECT_ADJECTIVES = "special fine pretty tiny new big".split()
ANIMAL_ADJECTIVES = "small sleepy friendly hungry tired young wise lazy".split()
ANIMALS = "fox owl rabbit frog mouse goat crow hedgehog duck bear squirrel turtle".split()
FOODS = "bread cheese cake nuts berries soup honey".split()
SPOTS = ["behind the old wall", "under the big stone", "in the hollow tree", "in the tall grass",
         "under the wooden cart", "inside the empty barrel", "on top of the hay",
         "beside the deep well"]

# Two plots. 0: an object is lost and found. 1: a gift is carried to a relative.
LOST, GIFT = 0, 1

OPENING = [[
    "Once upon a time there was a {adj} {girl} named {name}. {She} lived in a small house near the {padj} {place}. {She} had a {oadj} {colour} {object}, and {she} loved it very much.",
    "Once upon a time a {adj} {girl} called {name} lived near the {padj} {place}. For {her} birthday {she} got a {oadj} {colour} {object} from {her} {relative}.",
    "Long ago, near the {padj} {place}, there lived a {adj} {girl}. {Her} name was {name}. The thing {she} loved most was a {oadj} {colour} {object}.",
    "Near the {padj} {place} lived a {adj} {girl} called {name}. {She} took a {oadj} {colour} {object} with {them} wherever {she} went.",
    "There was once a {adj} {girl} named {name}, who lived in a cottage by the {padj} {place}. {She} was not rich, but {she} had a {oadj} {colour} {object}.",
    "In a small house by the {padj} {place} lived a {adj} {girl} named {name}. {Her} {relative} gave {them} a {oadj} {colour} {object}, and it made {them} very happy.",
], [
    "Once upon a time there was a {adj} {girl} named {name}. {Her} {relative} lived far away, near the {padj} {place}. One day {she} made a {oadj} {colour} {object} as a gift.",
    "One morning a {adj} {girl} called {name} wanted to visit {her} {relative}, who lived near the {padj} {place}. {She} took a {oadj} {colour} {object} as a present.",
    "Long ago a {adj} {girl} named {name} found a {oadj} {colour} {object}. It belonged to {her} {relative}, who lived by the {padj} {place}.",
    "One day a letter came for a {adj} {girl} called {name}. It was from {her} {relative}, who lived near the {padj} {place} and needed a {oadj} {colour} {object}.",
    "There was once a {adj} {girl} named {name}, who could make anything. {She} made a {oadj} {colour} {object} for {her} {relative}, who lived by the {padj} {place}.",
]]

START = [[
    "One windy morning {she} woke up and it was gone.",
    "But one night a storm came, and in the morning it was gone.",
    "One day {she} left it outside, and when {she} came back it was not there.",
    "Then a big bird flew down and took it away.",
    "One afternoon {she} went for a walk and lost it on the way.",
    "But one day a strong wind blew it far away.",
], [
    "The way was long, but {she} was not afraid.",
    "{She} put it in a bag and tied the bag with string.",
    "\"I must take it there today,\" {she} said.",
    "The sun was shining, and it was a good day for a walk.",
    "{She} had never walked so far before.",
    "{She} wrapped it in soft paper so that it would not break.",
]]
REACT = [[
    "{She} was very sad.",
    "{She} began to cry.",
    "{She} looked under the bed and behind the door, but found nothing.",
    "\"I will find it,\" {she} said, and {she} meant it.",
    "{She} looked everywhere, but it was nowhere to be seen.",
], [
    "{Her} mother gave {them} a kiss and waved.",
    "\"Be careful,\" said {her} father.",
    "{She} felt proud and a little nervous.",
    "{Her} brother wanted to come too, but he was too young.",
    "\"Come home before dark,\" said {her} mother.",
]]
SET_OUT = [
    "So {she} put on {her} boots and set out.",
    "{She} packed some {food} and walked down the road.",
    "{She} took a warm coat, closed the door and went out.",
    "So {she} left the house and followed the narrow path.",
    "{She} ate some {food}, drank some milk and started to walk.",
]
ON_THE_WAY = [[
    "The birds were singing, and the air was fresh.",
    "The road went up and down and up again.",
    "{She} sang a song to feel brave.",
    "There were flowers on both sides of the path.",
    "{She} counted {her} steps so that {she} would not get bored.",
], [
    "At noon the sun was hot, so {she} sat down in the shade and ate some {food}.",
    "Soon it began to rain, and {she} waited under a tree until it stopped.",
    "{She} crossed a field and jumped over a stream.",
    "{Her} feet hurt, but {she} did not want to stop.",
    "{She} drank cold water from a stream and felt better.",
]]
MEET = [
    "Under a tree {she} met a {aadj} {animal}.",
    "Soon {she} saw a {aadj} {animal} sitting on a fence.",
    "On the path stood a {aadj} {animal}.",
    "Then a {aadj} {animal} came out of the bushes.",
    "After a while {she} heard a noise. It was a {aadj} {animal}.",
]
MEET_NEXT = [
    "{She} walked on until {she} found the {animal}.",
    "It was not hard to find the {animal}.",
    "Soon {she} came to the {animal}, who was fast asleep.",
    "The {animal} was having lunch when {she} came.",
    "The {animal} saw {them} coming and said hello.",
]
ASK = [[
    "\"Have you seen my treasure?\" asked the {girl}.",
    "\"I have lost something,\" said the {girl}. \"Can you help me?\"",
    "\"Please help me look,\" said the {girl}.",
    "\"Why do you look so sad?\" asked the {animal}, and the {girl} told it everything.",
], [
    "\"Is this the right way?\" asked the {girl}.",
    "\"Where are you going?\" asked the {animal}, and the {girl} told it everything.",
    "\"I think I am lost,\" said the {girl}. \"Can you help me?\"",
    "\"I have to go far today,\" said the {girl}. \"Do you know the way?\"",
]]
SENT_ON = [[
    "\"I have seen nothing,\" said the {animal}, \"but you can ask the {next}.\"",
    "The {animal} thought for a long time. \"The {next} may know,\" it said.",
    "\"I am too busy,\" said the {animal}. \"Go and ask the {next}.\"",
    "The {animal} shook its head and told {them} to ask the {next}.",
], [
    "\"I do not know,\" said the {animal}, \"but you can ask the {next}.\"",
    "The {animal} thought for a long time. \"The {next} knows every road,\" it said.",
    "\"Go left,\" said the {animal}, \"and then ask the {next}.\"",
    "The {animal} shook its head and told {them} to ask the {next}.",
]]
HELP = [
    "The {animal} was hungry, so {she} gave it some {food}.",
    "The {animal} had a thorn in its foot, and {she} pulled it out.",
    "The {animal} was cold, so {she} gave it {her} coat.",
    "First they sat down and shared some {food}.",
]
ANSWER = [[
    "\"You are kind,\" said the {animal}. \"Look {spot}.\"",
    "\"I know where it is,\" said the {animal}. \"You must look {spot}.\"",
    "The {animal} smiled and told {them} to look {spot}.",
    "\"Do not worry,\" said the {animal}. \"I saw it {spot}.\"",
], [
    "\"You are kind,\" said the {animal}. \"Come with me, I will show you the way.\"",
    "\"It is not far now,\" said the {animal}. \"Follow me.\"",
    "The {animal} smiled and walked with {them} the rest of the way.",
    "\"Do not worry,\" said the {animal}. \"I will go with you.\"",
]]
LATE = [
    "The moon came up and the stars began to shine.",
    "They were both very excited.",
    "It was almost evening.",
    "Now {she} was not afraid any more.",
]

FIND = [[
    "{She} looked {spot}, and there was the {colour} {object}!",
    "{She} ran as fast as {she} could. {Spot}, {she} saw something {colour}. It was the {object}!",
    "And there, {spot}, lay the {object}. It was as {colour} as ever.",
    "{She} looked {spot}. \"My {colour} {object}!\" cried {name}.",
    "At last {name} looked {spot}. There was the {object}, as {colour} as before.",
], [
    "At last {she} saw the {place}. \"I am here!\" called {name}, and {she} gave {her} {relative} the {colour} {object}.",
    "At last they came to the {place}. The {relative} opened the door and saw the {colour} {object}.",
    "Then {name} saw the {place} and knew that the long walk was over. {She} opened the bag and took out the {colour} {object}.",
    "\"Look, there is the {place}!\" said the {animal}. {name} knocked on the door and held up the {object}. It was as {colour} as ever.",
]]
GO_HOME = [[
    "{name} thanked the {animal} and hurried back to the {place}.",
    "\"Thank you,\" said {name}. Then {she} walked home to the {place}.",
    "{name} danced all the way back to the {place}.",
    "{She} held it tight and went home. When {name} saw the {place} again, {she} laughed for joy.",
], [
    "\"What a lovely {object}!\" said the {relative}. \"Thank you, dear {name}!\"",
    "\"You came all this way, {name}!\" said the {relative}.",
    "The {relative} gave {name} a big hug and some warm milk.",
    "They all ate cake together, and {name} told the {relative} about the long walk.",
]]
CLOSE = [[
    "From that day on, {name} never lost the {colour} {object} again.",
    "That night {name} slept well, with the {object} beside {her} bed.",
    "And {name} and the {animal} were friends for ever.",
    "Every evening after that, {name} looked at the {object} and smiled.",
], [
    "And if you go to the {place} today, you can still see the {colour} {object}.",
    "That night {name} slept in a soft bed and dreamed of the {animal}.",
    "From that day on, {name} came to the {place} every summer.",
    "And {name} and the {animal} were friends for ever.",
]]
