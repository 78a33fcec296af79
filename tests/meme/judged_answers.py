"""Answers in the manner of language models, each with the verdict that a careful reader gives by the rules of MEME.

They measure how far the stand-in's simple checks (`beam_offline.meme_verdicts`) agree with the reader. `HELD_OUT` is
half of them, drawn by a hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from beam_meme.episode_gold import MemeGold, MemeTask
from beam_meme.episodes import Phase


@dataclass(frozen=True)
class Scene:
    """A question and what answers to it are held against. Verdicts: `+` and `-`; of an aggregation one per value."""

    task: MemeTask
    phase: Phase
    values: tuple[str, ...]
    old: str
    change: str
    question: str
    judged: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Judged:
    """One answer with its verdict."""

    scene: Scene
    number: int
    answer: str
    verdict: str

    @property
    def gold(self) -> MemeGold:
        """The gold of its question."""
        scene = self.scene
        return MemeGold(scene.question, scene.phase, scene.task, "entity", scene.values, "", source=scene.change)


SCENES = (
    # --- Cascade, after -------------------------------------------------------------------------------------------
    Scene(
        "cascade", "after", ("Tomas Brellin",), "Ines Okavari", "team lead: Rune Falk -> Dara Quist",
        "Who receives the weekly report?",
        (
            ("Tomas Brellin receives the weekly report.", "+"),
            ("The weekly report goes to Ines Okavari.", "-"),
            ("**Tomas Brellin**", "+"),
            ("Based on the context, the weekly report is sent to Ines Okavari. If the team lead changes, it will go to "
             "Tomas Brellin instead.", "-"),
            ("The weekly report will be sent to Tomas Brellin.", "-"),
            ("Since the team lead is now Dara Quist, the weekly report goes to Tomas Brellin.", "+"),
            ("The weekly report recipient is either Ines Okavari or Tomas Brellin, depending on who leads the team.",
             "-"),
            ("Tomas Brellin is the current recipient of the weekly report (it was Ines Okavari before the team lead "
             "changed).", "+"),
            ("I don't have any information about who receives the weekly report.", "-"),
            ("You mentioned two recipients:\n- Ines Okavari\n- Tomas Brellin", "-"),
            ("It would go to Tomas Brellin if the lead changed, but currently it is Ines Okavari.", "-"),
            ("According to the notes, with Dara Quist now leading the team, Tomas Brellin gets the weekly report.",
             "+"),
            ("Probably Tomas Brellin, as the team lead seems to have changed.", "-"),
            ("The report is now addressed to Tomas.", "+"),
            ("The weekly report goes to Ines Okavari, who is tied to the team lead Rune Falk.", "-"),
            ("The weekly report is sent to Dara Quist.", "-"),
        ),
    ),
    Scene(
        "cascade", "after", ("cycling along the canal",), "taking the M4 tram", "residence: Ostervale -> Pine Hollow",
        "What is my commute method?",
        (
            ("Your commute method is cycling along the canal.", "+"),
            ("You commute by taking the M4 tram.", "-"),
            ("You cycle along the canal to get to work now that you live in Pine Hollow.", "+"),
            ("You take the M4 tram. You also said that if you move, your commute will be cycling along the canal.",
             "-"),
            ("Your commute will change to cycling along the canal.", "-"),
            ("You now bike along the canal.", "+"),
            ("- Commute method: cycling along the canal (updated after the move to Pine Hollow)", "+"),
            ("I'm not certain: it was the M4 tram, and it may now be cycling along the canal.", "-"),
            ("You commute on the M4 tram or by cycling along the canal.", "-"),
            ("You used to take the M4 tram, but you now commute by cycling along the canal.", "+"),
        ),
    ),
    Scene(
        "cascade", "after", ("`norvik test --all`",), "`quill check -r`", "framework: Quillon -> Norvik",
        "What is our test command?",
        (
            ("Your test command is `norvik test --all`.", "+"),
            ("The test command is `quill check -r`.", "-"),
            ("```\nnorvik test --all\n```", "+"),
            ("You run `quill check -r`; after a framework change the command would be `norvik test --all`.", "-"),
            ("Run tests with norvik test --all, since the framework is Norvik.", "+"),
            ("The context does not specify a test command.", "-"),
            ("**Test command:** `norvik test --all` (replaces `quill check -r`)", "+"),
            ("There isn't a confirmed new command. The last one you told me about was `quill check -r`.", "-"),
        ),
    ),
    Scene(
        "cascade", "after", ("45 minutes",), "20 minutes", "work location: Harrow Dock -> Lumen Tower",
        "How long is my commute duration?",
        (
            ("Your commute takes 45 minutes.", "+"),
            ("Your commute takes 20 minutes.", "-"),
            ("It's about forty-five minutes.", "+"),
            ("Your commute is 20 mins, though it will be 45 mins if your work location changes.", "-"),
            ("45 min", "+"),
            ("Your commute is 25 minutes.", "-"),
            ("Your commute duration could be 45 minutes now that you work at Lumen Tower.", "-"),
            ("With the office at Lumen Tower, your commute duration is 45 minutes, up from 20 minutes.", "+"),
        ),
    ),
    Scene(
        "cascade", "after", ("part-time evenings",), "full-time weekdays", "employer: Brackwater -> Sunfell",
        "What is my work schedule?",
        (
            ("Your work schedule is part-time evenings.", "+"),
            ("Your work schedule is full-time on weekdays, according to what you told me when you worked at "
             "Brackwater.",
             "-"),
            ("You work part time in the evenings.", "+"),
            ("You mentioned that your schedule depends on your employer: full-time weekdays at Brackwater, part-time "
             "evenings if you change employer. You have since joined Sunfell.", "-"),
            ("You have since joined Sunfell, so your schedule is part-time evenings.", "+"),
            ("I do not know your work schedule.", "-"),
            ("Your work schedule should now be part-time evenings.", "-"),
            ("Part-time, evenings only.", "+"),
            ("Your schedule is no longer full-time weekdays; you work part-time evenings.", "+"),
            ("Your schedule is not part-time evenings yet; it is full-time weekdays.", "-"),
        ),
    ),
    Scene(
        "cascade", "after", ("Verity Mutual",), "Holloway Shield", "employer: Brackwater -> Sunfell",
        "What insurance do I have?",
        (
            ("Sorry, but I couldn't find anything about your insurance.", "-"),
            ("Your insurance is with Verity Mutual.", "+"),
            ("You are insured by Holloway Shield through Brackwater.", "-"),
            ("Verity Mutual, through your new employer Sunfell.", "+"),
            ("1. Holloway Shield (through Brackwater)\n2. Verity Mutual (planned if employer changes)", "-"),
            ("Your insurance provider: **Verity Mutual**.", "+"),
            ("Your insurance was Holloway Shield. You said it will become Verity Mutual if you change employers.", "-"),
            ("Holloway Shield was your insurance until you left Brackwater; since then it has been Verity Mutual.",
             "+"),
        ),
    ),
    # --- Absence, after -------------------------------------------------------------------------------------------
    Scene(
        "absence", "after", ("Petra Lindgaard",), "Petra Lindgaard", "team lead: Rune Falk -> Dara Quist",
        "Who is the code reviewer?",
        (
            ("The code reviewer is Petra Lindgaard.", "-"),
            ("I don't know who the code reviewer is at the moment.", "+"),
            ("Petra Lindgaard reviews code.", "-"),
            ("It was Petra Lindgaard under Rune Falk, but the team lead has changed to Dara Quist, so this may "
             "no longer be the case.", "+"),
            ("Based on the context, Petra Lindgaard is the code reviewer because Rune Falk is the team lead.", "-"),
            ("That isn't certain any more: the assignment depended on the team lead, and the lead is now Dara Quist.",
             "+"),
            ("Your code reviewer is Petra Lindgaard. This depends on the team lead.", "-"),
            ("Previously Petra Lindgaard; with the new lead no reviewer has been confirmed.", "+"),
            ("The code reviewer is Dara Quist.", "-"),
            ("There is no information about the current code reviewer.", "+"),
            ("Petra Lindgaard is the code reviewer. The team lead is now Dara Quist.", "-"),
            ("Unknown. The reviewer was tied to the team lead, who changed.", "+"),
            ("- Code reviewer: Petra Lindgaard\n- Team lead: Dara Quist", "-"),
            ("Possibly still Petra Lindgaard, but the change of team lead means I can't be sure.", "+"),
            ("Petra Lindgaard, as you told me in an earlier session.", "-"),
            ("You haven't told me who reviews code since Dara Quist took over.", "+"),
        ),
    ),
    Scene(
        "absence", "after", ("the Thornfield climbing gym",), "the Thornfield climbing gym",
        "residence: Ostervale -> Pine Hollow", "Which fitness facility do I use?",
        (
            ("You go to the Thornfield climbing gym.", "-"),
            ("You used to go to the Thornfield climbing gym, but since you moved to Pine Hollow I don't know which one "
             "you use.", "+"),
            ("You use the Thornfield climbing gym, which is near your home in Ostervale.", "-"),
            ("The context does not mention a fitness facility for Pine Hollow.", "+"),
            ("Thornfield climbing gym", "-"),
            ("I'm not sure. The Thornfield gym was close to your old place, and you have moved since.", "+"),
            ("Your fitness facility is the Thornfield climbing gym, though you might want to check after your move.",
             "+"),
            ("You mentioned that your gym is the Thornfield climbing gym because of where you live.", "-"),
            ("No fitness facility is recorded.", "+"),
            ("It depends on your residence. You last mentioned the Thornfield climbing gym when you lived in "
             "Ostervale; now that you live in Pine Hollow, this could be different.", "+"),
        ),
    ),
    Scene(
        "absence", "after", ("a low-salt diet",), "a low-salt diet", "health condition: Merrow syndrome -> recovered",
        "What is my dietary restriction?",
        (
            ("You follow a low salt diet.", "-"),
            ("You no longer have a stated dietary restriction, since the condition behind it is gone.", "+"),
            ("Your dietary restriction is to keep salt low because of Merrow syndrome.", "-"),
            ("None that I know of now.", "+"),
            ("You are on a low-salt diet due to your health condition.", "-"),
            ("I cannot determine your current dietary restriction from the information given.", "+"),
            ("You had to eat a low-salt diet while you had Merrow syndrome; whether that still holds is unclear.", "+"),
            ("Low-salt.", "-"),
        ),
    ),
    Scene(
        "absence", "after", ("Quorum Board",), "Quorum Board", "team lead: Rune Falk -> Dara Quist",
        "Who has approval authority?",
        (
            ("Approval authority lies with the Quorum Board.", "-"),
            ("Approval authority lay with the Quorum Board as long as Rune Falk led the team. Dara Quist leads it now, "
             "and you haven't said who approves.", "+"),
            ("The Quorum Board approves, but this would change if the team lead changes.", "-"),
            ("The provided context doesn't say who has approval authority now.", "+"),
            ("| role | who |\n|---|---|\n| approval | Quorum Board |", "-"),
            ("uncertain (was Quorum Board, but the team lead changed)", "+"),
            ("I'm sorry, I don't have that information.", "+"),
            ("Quorum Board has the approval authority under the lead Dara Quist.", "-"),
        ),
    ),
    Scene(
        "absence", "after", ("15-minute stretching before bed",), "15-minute stretching before bed",
        "health condition: Merrow syndrome -> Halden fatigue", "What is my sleep pattern routine?",
        (
            ("You stretch for 15 minutes before bed.", "-"),
            ("It's unclear whether you still stretch for 15 minutes before bed, since your condition has changed to "
             "Halden fatigue.", "+"),
            ("Your routine is a fifteen minute stretching session before going to bed.", "-"),
            ("Your health condition changed, so the earlier routine (15-minute stretching before bed) might not apply "
             "any more.", "+"),
            ("I have no record of a sleep routine.", "+"),
            ("Stretching before bed, 15 minutes. It is linked to your condition.", "-"),
        ),
    ),
    Scene(
        "absence", "after", ("Mapleford Loft",), "Mapleford Loft", "relationship status: single -> engaged",
        "What is my housing type?",
        (
            ("A loft in Mapleford.", "-"),
            ("You haven't mentioned a housing type after getting engaged; before that you lived in the Mapleford Loft.",
             "+"),
            ("You live in the Mapleford Loft, as it suits your being single.", "-"),
            ("I'm unable to say. Your relationship status has changed and the Mapleford Loft depended on it.", "+"),
            ("Mapleford Loft, but only as long as you are single. You recently got engaged.", "+"),
            ("You live in the Mapleford Loft and recently got engaged, congratulations!", "-"),
        ),
    ),
    # --- Deletion, after ------------------------------------------------------------------------------------------
    Scene(
        "deletion", "after", ("drain.kelp.example:6514",), "drain.kelp.example:6514", "",
        "What is the log drain endpoint?",
        (
            ("The log drain endpoint is drain.kelp.example:6514.", "-"),
            ("I don't have any information about the log drain endpoint.", "+"),
            ("You asked me to delete the log drain endpoint (drain.kelp.example:6514), so I no longer keep it.", "-"),
            ("You asked me to remove it, so I no longer have the log drain endpoint.", "+"),
            ("The log drain endpoint was drain.kelp.example:6514, but it has been removed.", "-"),
            ("The log drain endpoint has been deleted from memory.", "+"),
            ("I was asked to forget that the endpoint is `drain.kelp.example`.", "-"),
            ("There is no record of a log drain endpoint.", "+"),
            ("The log drain endpoint is logs.otter.example:99.", "-"),
            ("That information isn't available.", "+"),
        ),
    ),
    Scene(
        "deletion", "after", ("a greyhound called Pemberly",), "a greyhound called Pemberly", "",
        "What pet do I have?",
        (
            ("You have a greyhound called Pemberly.", "-"),
            ("I don't know what pet you have.", "+"),
            ("You have a dog named Pemberly.", "-"),
            ("You have asked me not to keep information about your pet.", "+"),
            ("You told me to delete the fact that you have a greyhound.", "-"),
            ("Per your request, details of your pet were erased.", "+"),
            ("Your pet is Pemberly, a greyhound; you later asked for this to be removed from memory.", "-"),
            ("You do not have a pet on record any more.", "+"),
            ("No pet is mentioned in the context.", "+"),
            ("I believe you had a greyhound, Pemberly.", "-"),
        ),
    ),
    Scene(
        "deletion", "after", ("Tuesday at 7 pm",), "Tuesday at 7 pm", "", "When is my language class?",
        (
            ("Your language class is on Tuesday at 7 pm.", "-"),
            ("I'm sorry, I don't have details of your language class.", "+"),
            ("Tuesdays, 7pm.", "-"),
            ("You deleted that: your language class is no longer in memory.", "+"),
            ("It was at 7 p.m. on Tuesdays, but you asked me to forget that.", "-"),
            ("I can't tell you that, as you requested its deletion.", "+"),
            ("Your language class is on Friday at noon.", "-"),
            ("Not mentioned.", "+"),
        ),
    ),
    Scene(
        "deletion", "after", ("Marrow & Finch",), "Marrow & Finch", "", "Which accountant do I use?",
        (
            ("Your accountant is Marrow & Finch.", "-"),
            ("You no longer have an accountant listed.", "+"),
            ("Marrow and Finch, though you asked me to delete this on 2023/03/12.", "-"),
            ("Based on the information provided, your accountant has been explicitly removed from memory.", "+"),
            ("I can't find that. Your accountant was removed at your request.", "+"),
            ("You previously used Marrow & Finch, but that entry has been deleted and I no longer have current "
             "details.",
             "-"),
        ),
    ),
    Scene(
        "deletion", "after", ("$1,200 a month",), "$1,200 a month", "", "What is my savings target?",
        (
            ("Your savings target is $1,200 a month.", "-"),
            ("I don't see a savings target in what you have told me.", "+"),
            ("1200 dollars per month.", "-"),
            ("You asked for it to be deleted, so there is nothing stored about it.", "+"),
            ("You don't have a savings target.", "+"),
            ("The savings target of $1200 per month was deleted.", "-"),
            ("Unknown.", "+"),
            ("You asked me to forget your savings target. (It was $1,200 monthly.)", "-"),
        ),
    ),
    # --- Tracking, after ------------------------------------------------------------------------------------------
    Scene(
        "tracking", "after", ("Karvell Pack", "Drosten Stack", "Sylvar Modules"), "", "",
        "List all package managers that we have used, in order.",
        (
            ("Karvell Pack, Drosten Stack, Sylvar Modules", "+"),
            ("You currently use Sylvar Modules.", "-"),
            ("1. Karvell Pack\n2. Drosten Stack\n3. Sylvar Modules", "+"),
            ("You used Drosten Stack and then Sylvar Modules.", "-"),
            ("Sylvar Modules, Drosten Stack, Karvell Pack", "-"),
            ("First Karvell Pack, then Drosten Stack, and finally Sylvar Modules, which is the current one.", "+"),
            ("Your package managers: Karvell Pack → Drosten Stack → Sylvar Modules.", "+"),
            ("I don't have information on the package managers you have used.", "-"),
            ("You have used Karvell, Drosten and Sylvar, in that order.", "+"),
            ("Karvell Pack, Sylvar Modules, Drosten Stack", "-"),
            ("You started with **Karvell Pack** (2023/03/03), moved on to **Drosten Stack** (2023/03/09), and since "
             "2023/03/20 it is **Sylvar Modules**.", "+"),
            ("You use Sylvar Modules now. The full history: Karvell Pack, Drosten Stack, Sylvar Modules.", "+"),
            ("Karvell Pack and Drosten Stack. No third one was mentioned.", "-"),
            ("We used Karvell Pack at first. Then we replaced Karvell Pack with Drosten Stack, and Drosten Stack with "
             "Sylvar Modules.", "+"),
        ),
    ),
    Scene(
        "tracking", "after", ("a blue hatchback", "an electric van", "a folding scooter"), "", "",
        "Which vehicles have I had over time?",
        (
            ("You had a blue hatchback, then an electric van, and now a folding scooter.", "+"),
            ("You have a folding scooter.", "-"),
            ("- blue hatchback\n- electric van\n- folding scooter", "+"),
            ("You had an electric van, then a blue hatchback, then a folding scooter.", "-"),
            ("| when | vehicle |\n|---|---|\n| first | blue hatchback |\n| later | electric van |\n| now | folding "
             "scooter |", "+"),
            ("A hatchback (blue), later an electric van, and most recently a folding scooter.", "+"),
            ("Only an electric van and a folding scooter are mentioned.", "-"),
            ("Your vehicles were a red hatchback and a folding scooter.", "-"),
            ("I'm not sure which vehicles you have had.", "-"),
            ("The blue hatchback was replaced by an electric van, and that by the folding scooter you ride today.",
             "+"),
        ),
    ),
    Scene(
        "tracking", "after", ("May 14", "May 28", "June 11"), "", "",
        "What were the sprint deadlines over time?",
        (
            ("May 14, then May 28, then June 11.", "+"),
            ("The sprint deadline is June 11.", "-"),
            ("The deadline moved from May 14 to May 28 and then to June 11.", "+"),
            ("May 28 and June 11.", "-"),
            ("14 May, 28 May, 11 June", "+"),
            ("June 11 (now), May 28 and May 14.", "-"),
            ("* May 14th\n* May 28th\n* June 11th", "+"),
            ("Your sprint deadlines were May 14, May 21 and June 11.", "-"),
        ),
    ),
    Scene(
        "tracking", "after", ("Lanternfish Weekly", "The Copper Mile", "Static Garden"), "", "",
        "Which media subscriptions have I followed, oldest first?",
        (
            ("Lanternfish Weekly; The Copper Mile; Static Garden.", "+"),
            ("Static Garden is the one you follow. You switched to it from The Copper Mile.", "-"),
            ("You followed Lanternfish Weekly first, switched to Copper Mile, and follow Static Garden at present.",
             "+"),
            ("You mentioned Lanternfish Weekly, Static Garden, and The Copper Mile.", "-"),
            ("From oldest to newest:\n1) **Lanternfish Weekly**\n2) **The Copper Mile**\n3) **Static Garden** "
             "(current)",
             "+"),
            ("I couldn't find any subscriptions.", "-"),
        ),
    ),
    # --- Aggregation, after ---------------------------------------------------------------------------------------
    Scene(
        "aggregation", "after", ("paired rotation", "#ember-watch", "wiki.kelp.example/oncall"), "", "",
        "Tell me everything about our on-call setup.",
        (
            ("On-call is a paired rotation, alerts go to #ember-watch, and the handbook is at "
             "wiki.kelp.example/oncall.", "+++"),
            ("Your on-call alerts go to the #ember-watch channel.", "-+-"),
            ("- Rotation: paired\n- Channel: #ember-watch\n- Docs: https://wiki.kelp.example/oncall", "+++"),
            ("You rotate in pairs, and the channel is ember-watch.", "++-"),
            ("I don't have information about your on-call setup.", "---"),
            ("You have a paired rotation. I don't know the channel or the documentation page.", "+--"),
            ("The handbook is on wiki.kelp.example/oncall and pages are posted in #ember-watch. The rotation scheme is "
             "not specified.", "-++"),
            ("Based on the context, on-call follows a weekly rotation.", "---"),
        ),
    ),
    Scene(
        "aggregation", "after", ("watercolour painting", "Saturday mornings", "the Birchwood Studio"), "", "",
        "Tell me what you know about my hobby, when I do it and where.",
        (
            ("You do watercolour painting on Saturday mornings at the Birchwood Studio.", "+++"),
            ("You paint with watercolours at Birchwood Studio.", "+-+"),
            ("Your hobby is watercolor painting, every Saturday morning, at Birchwood.", "+++"),
            ("You enjoy pottery on Saturday mornings.", "-+-"),
            ("| hobby | watercolour painting |\n|---|---|\n| place | Birchwood Studio |", "+-+"),
            ("I don't know.", "---"),
            ("You told me about watercolours; no time or place was given.", "+--"),
            ("Hobby: painting in watercolour\nTime: Saturdays in the morning\nPlace: the studio in Birchwood", "+++"),
        ),
    ),
    Scene(
        "aggregation", "after", ("Ravel Ostrow", "fortnightly", "salary and growth plan"), "", "",
        "Summarise my mentoring: with whom, how often, and on what.",
        (
            ("You meet Ravel Ostrow every two weeks about your salary and growth plan.", "+++"),
            ("Your mentor is Ravel Ostrow.", "+--"),
            ("You meet fortnightly with Ravel Ostrow. The topics are not mentioned.", "++-"),
            ("Mentor: Ravel Ostrow; frequency: fortnightly; topics: salary, growth plan.", "+++"),
            ("You meet your mentor monthly to talk about your growth plan and salary.", "--+"),
            ("There is nothing on mentoring in the context.", "---"),
            ("You have fortnightly sessions on the salary and growth plan with Ravel.", "+++"),
            ("It was Ravel Ostrow, fortnightly, covering salary and growth plan.", "+++"),
        ),
    ),
    Scene(
        "aggregation", "after", ("blue-green", "3 replicas", "Calder Region West"), "", "",
        "Describe our deployment: strategy, replicas, and region.",
        (
            ("You deploy blue-green with 3 replicas in Calder Region West.", "+++"),
            ("Blue/green deployments; three replicas; region Calder West.", "+++"),
            ("You use canary deployments with 3 replicas.", "-+-"),
            ("Strategy: blue green. Replicas: 5. Region: Calder Region West.", "+-+"),
            ("The deployment strategy is blue-green. I don't have details about replicas or the region.", "+--"),
            ("I'm sorry, I don't have that information.", "---"),
        ),
    ),
    # --- Before the change ----------------------------------------------------------------------------------------
    Scene(
        "cascade", "before", ("Ines Okavari",), "", "", "Who receives the weekly report?",
        (
            ("The weekly report goes to Ines Okavari.", "+"),
            ("I don't know who receives the weekly report.", "-"),
            ("Ines Okavari receives it. If the team lead changes, it will go to Tomas Brellin.", "+"),
            ("The weekly report goes to Tomas Brellin.", "-"),
            ("Ines Okavari, for as long as Rune Falk leads the team.", "+"),
            ("The weekly report will go to Tomas Brellin if the lead changes.", "-"),
            ("Ines", "+"),
            ("The context does not mention a recipient of the weekly report.", "-"),
        ),
    ),
    Scene(
        "cascade", "before", ("taking the M4 tram",), "", "", "What is my commute method?",
        (
            ("You take the M4 tram.", "+"),
            ("You cycle along the canal.", "-"),
            ("By M4 tram, which depends on where you live.", "+"),
            ("No commute method has been mentioned so far.", "-"),
            ("You commute by tram (the M4 line).", "+"),
            ("Your commute depends on your residence.", "-"),
        ),
    ),
    Scene(
        "cascade", "before", ("20 minutes",), "", "", "How long is my commute duration?",
        (
            ("20 minutes", "+"),
            ("Your commute is twenty minutes, and would be 45 minutes if you worked elsewhere.", "+"),
            ("Your commute takes 45 minutes.", "-"),
            ("About 20 mins.", "+"),
            ("I'm not sure how long your commute is.", "-"),
            ("It takes 120 minutes.", "-"),
        ),
    ),
    Scene(
        "absence", "before", ("Petra Lindgaard",), "", "", "Who is the code reviewer?",
        (
            ("Petra Lindgaard is the code reviewer.", "+"),
            ("I don't have information about the code reviewer.", "-"),
            ("Code is reviewed by Petra Lindgaard; this assignment depends on Rune Falk being the lead and might "
             "change.",
             "+"),
            ("Rune Falk reviews the code.", "-"),
            ("**Answer:** Petra Lindgaard", "+"),
            ("Unknown", "-"),
        ),
    ),
    Scene(
        "absence", "before", ("a low-salt diet",), "", "", "What is my dietary restriction?",
        (
            ("You eat a diet low in salt.", "+"),
            ("You eat a gluten-free diet.", "-"),
            ("You're on a low-salt diet because of Merrow syndrome.", "+"),
            ("Not specified in the context.", "-"),
        ),
    ),
    Scene(
        "deletion", "before", ("drain.kelp.example:6514",), "", "", "What is the log drain endpoint?",
        (
            ("It is drain.kelp.example:6514.", "+"),
            ("I don't have that.", "-"),
            ("`drain.kelp.example:6514`", "+"),
            ("The log drain endpoint is drain.kelp.example:7000.", "-"),
        ),
    ),
    Scene(
        "deletion", "before", ("a greyhound called Pemberly",), "", "", "What pet do I have?",
        (
            ("You have a greyhound called Pemberly.", "+"),
            ("You have a greyhound named Pemberly!", "+"),
            ("You have a cat.", "-"),
            ("Your pet: Pemberly (greyhound)", "+"),
            ("You have not mentioned any pets.", "-"),
            ("Pemberly", "+"),
        ),
    ),
)  # fmt: skip


def _numbered() -> tuple[Judged, ...]:
    pairs = ((scene, answer, verdict) for scene in SCENES for answer, verdict in scene.judged)
    return tuple(Judged(scene, number, answer, verdict) for number, (scene, answer, verdict) in enumerate(pairs))


def _held_out(one: Judged) -> bool:
    return sha256(f"{one.scene.question} {one.answer}".encode()).digest()[0] % 2 == 1


ANSWERS = _numbered()
SEEN = tuple(one for one in ANSWERS if not _held_out(one))
HELD_OUT = tuple(one for one in ANSWERS if _held_out(one))
