"""Two small episodes for tests of running: four sessions, the change in the last, no filler. Gold stands apart."""

from __future__ import annotations

from beam_meme.episode_gold import Edge, EpisodeGold, LoadedEpisode, MemeGold, Told
from beam_meme.episodes import Episode, Line, Question, Round, Session

LOG = "E42: drum stalled\nretry in 7 s"


def session(number: int, *said: str) -> Session:
    """A session of that number; the assistant greets, and answers each of the user's lines."""
    lines = [Line("assistant", "Hello.")]
    for text in said:
        lines += [Line("user", text), Line("assistant", "Thanks, noted.")]
    return Session(f"s{number:02}", f"2023/03/{number + 1:02} (Wed) 09:00", tuple(lines))


def loaded(number: int = 1, lead: str = "Ada Orlik") -> LoadedEpisode:
    """A software episode: the lead changes, and with it who gets the weekly report and who reviews code."""
    name = f"sw_{number:03}"
    sessions = (
        session(
            0, "Our package manager is Karn.", f"Our team lead is {lead}.", "The log drain endpoint is drain://q7."
        ),
        session(1, "Small update: our package manager is Dran now.", "Any ideas for a picnic?"),
        session(
            2,
            "Code reviews go to Mina Falk, our code reviewer. That depends on the team lead.",
            "The weekly report goes to Olof Brandt. It depends on the team lead.",
            "If the team lead changes, the weekly report will go to Ines Vogel.",
            f"Please keep our error log word for word:\n{LOG}",
        ),
        session(
            3,
            "The team lead is now Per Lind.",
            "Please delete the log drain endpoint drain://q7 from your memory.",
            "Our package manager is Synth now.",
        ),
    )
    before = {
        "cascade": ("weekly report", "Who gets the weekly report?", ("Olof Brandt",)),
        "absence": ("code reviewer", "Who is our code reviewer?", ("Mina Falk",)),
        "deletion": ("log drain", "What is the log drain endpoint?", ("drain://q7",)),
    }
    after = {
        **before,
        "cascade": ("weekly report", "Who gets the weekly report?", ("Ines Vogel",)),
        "exact_recall": ("error log", "Recite our error log word for word.", (LOG,)),
        "tracking": (
            "package manager",
            "List all our package managers over time, in order.",
            ("Karn", "Dran", "Synth"),
        ),
    }
    gold: dict[str, MemeGold] = {}
    rounds = {}
    for phase, asked in (("before", before), ("after", after)):
        questions = []
        for place, (task, (entity, text, values)) in enumerate(asked.items()):
            question = f"{name}-{phase}-q{place + 1:02}"
            questions.append(Question(question, text))
            gold[question] = MemeGold(text, phase, task, entity, values, ", ".join(values))  # type: ignore[arg-type]
        place = 3 if phase == "before" else 4
        rounds[phase] = Round(place, sessions[place - 1].timestamp, tuple(questions))
    facts = (
        Told("package manager", "Karn", "value", 0, 1),
        Told("team lead", lead, "root", 0, 3),
        Told("log drain", "drain://q7", "value", 0, 5),
        Told("package manager", "Dran", "update", 1, 1),
        Told("code reviewer", "Mina Falk", "dependency", 2, 1),
        Told("weekly report", "Olof Brandt", "dependency", 2, 3),
        Told("weekly report", "Ines Vogel", "rule", 2, 5),
        Told("error log", LOG, "exact", 2, 7),
        Told("team lead", "Per Lind", "change", 3, 1),
        Told("log drain", "drain://q7", "deletion", 3, 3),
        Told("package manager", "Synth", "update", 3, 5),
    )
    edges = (Edge("team lead", "weekly report", 1), Edge("team lead", "code reviewer", 1))
    episode = Episode(name, "software_project", sessions, rounds["before"], rounds["after"])
    found = EpisodeGold("team lead", (lead, "Per Lind"), edges, gold, facts, (0, 1, 2, 3))
    return LoadedEpisode(episode, found, "nofiller")


LOADED = [loaded(1), loaded(2, "Tove Rask")]
EPISODES = [one.episode for one in LOADED]
