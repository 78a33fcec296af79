"""Longer and less plain answers, written after the rules as well: several sentences, history, quotations, asides.

On the first look the rules agreed with 62 of these 70 (cascade 17 of 19, absence 14 of 18, deletion 11 of 11, tracking
8 of 8, aggregation 5 of 6, before 7 of 8); what led to a change afterwards are wordings, not single answers.
"""

from __future__ import annotations

from judged_answers import Judged, Scene

SCENES = (
    Scene(
        "cascade", "after", ("Hollin Marsh",), "Ada Quennell", "team lead: Bo Strand -> Ilse Varga",
        "Who approves our deployments?",
        (
            ("Deployments are approved by Hollin Marsh. This role moved to Hollin when Ilse Varga became team lead.",
             "+"),
            ("Ada Quennell approves deployments, as Bo Strand decided. (If the team lead changes, Hollin Marsh will "
             "approve them.)", "-"),
            ("Under the current team lead, Ilse Varga, deployments are approved by Hollin Marsh.", "+"),
            ("Your notes say:\n- deployment approver: Ada Quennell (depends on team lead)\n- if team lead changes: "
             "Hollin Marsh\n- team lead: Ilse Varga", "-"),
            ("Since Ilse Varga is the team lead now, and you said that Hollin Marsh would approve deployments once the "
             "lead changes, Hollin Marsh approves them now.", "+"),
            ("Hollin Marsh (effective after the team lead change).", "+"),
            ("The approver is Ada Quennell; no newer approver has been mentioned.", "-"),
            ("It used to be Ada Quennell, and it should be Hollin Marsh by now.", "-"),
            ("Given that the team lead changed to Ilse Varga, the approver is no longer Ada Quennell but Hollin Marsh.",
             "+"),
            ("I cannot tell whether it is still Ada Quennell or already Hollin Marsh.", "-"),
            ("Deployments: approved by H. Marsh", "+"),
            ("Not Ada Quennell any more: Hollin Marsh.", "+"),
            ("In the event of a new team lead, Hollin Marsh. Right now, Ada Quennell.", "-"),
        ),
    ),
    Scene(
        "cascade", "after", ("every second Friday at 10:30",), "Mondays at 9:15", "school: Elmstead -> Northlake",
        "When is my tutoring session?",
        (
            ("Your tutoring session is every second Friday at 10:30.", "+"),
            ("Your tutoring is on Mondays at 9:15 a.m.", "-"),
            ("Every other Friday, 10:30.", "+"),
            ("Mondays at 9:15 while at Elmstead; every second Friday at 10:30 at Northlake.", "-"),
            ("It's on Fridays at 10:30, every two weeks, now that you attend Northlake.", "+"),
            ("It takes place every second Friday at 11:30.", "-"),
        ),
    ),
    Scene(
        "absence", "after", ("Wednesday evening choir",), "Wednesday evening choir", "residence: Lowick -> "
        "Crayford Bay",
        "What is my regular appointment?",
        (
            ("You have Wednesday evening choir.", "-"),
            ("Your regular appointment was Wednesday evening choir, which depended on living in Lowick. As you "
             "moved to Crayford Bay, it isn't known whether it continues.", "+"),
            ("The only regular appointment I know of is the Wednesday evening choir from when you lived in "
             "Lowick.", "-"),
            ("You told me that you sing in a choir on Wednesday evenings.", "-"),
            ("There's no confirmed regular appointment since your move to Crayford Bay.", "+"),
            ("The choir on Wednesday evenings may have ended with your move.", "+"),
            ("You mentioned a Wednesday evening choir tied to where you live. You have moved to Crayford Bay, so "
             "please check if it still applies.", "+"),
            ("Wednesday evening choir (since you live in Lowick).", "-"),
            ("I have nothing on that.", "+"),
            ("No longer known.", "+"),
            ("Your regular appointment will change because you moved.", "+"),
        ),
    ),
    Scene(
        "absence", "after", ("the Kestrel pipeline template",), "the Kestrel pipeline template",
        "deploy target: Halcyon Grid -> Northpier", "What is our CI config based on?",
        (
            ("It is based on the Kestrel pipeline template.", "-"),
            ("Your CI config is based on the Kestrel template, because you deploy to Halcyon Grid.", "-"),
            ("With the deploy target now Northpier, the CI config is undetermined.", "+"),
            ("It was based on the Kestrel pipeline template for Halcyon Grid; what it is for Northpier hasn't been "
             "specified.", "+"),
            ("The CI config is based on the Kestrel pipeline template and you deploy to Northpier.", "-"),
            ("The context only tells that your CI config depended on the deploy target, which has changed.", "+"),
            ("The Northpier template.", "-"),
        ),
    ),
    Scene(
        "deletion", "after", ("a trip to Lake Orvane",), "a trip to Lake Orvane", "", "What is my travel plan?",
        (
            ("Your travel plan is a trip to Lake Orvane.", "-"),
            ("You plan to visit Lake Orvane.", "-"),
            ("I no longer have any travel plan on file, as you asked me to remove it.", "+"),
            ("There is a note that a travel plan was deleted at your request. I don't have its details.", "+"),
            ("You wanted me to forget the Lake Orvane trip, so I have no plan for you.", "-"),
            ("You don't have any travel plans mentioned.", "+"),
            ("Travel plan: (deleted)", "+"),
            ("You told me about a trip to a lake, but asked me to delete it.", "-"),
            ("Sorry, that was deleted.", "+"),
            ("The provided context does not contain any details of your travel plan.", "+"),
            ("You are going to the mountains.", "-"),
        ),
    ),
    Scene(
        "tracking", "after", ("The Quiet Ledger", "Harbour Static", "Moth & Meridian"), "", "",
        "Which podcasts have I been following, in order?",
        (
            ("You've followed *The Quiet Ledger*, then *Harbour Static*, and now *Moth & Meridian*.", "+"),
            ("You first followed The Quiet Ledger. Later you switched to Harbor Static. Your current podcast is "
             "Moth and Meridian.", "+"),
            ("You switched from Harbour Static to Moth & Meridian.", "-"),
            ("1. Harbour Static\n2. Moth & Meridian\n3. The Quiet Ledger", "-"),
            ("Based on the context: Quiet Ledger (March 3), Harbour Static (March 7), Moth & Meridian (March "
             "15).", "+"),
            ("Moth & Meridian is what you follow today. Before: Harbour Static. Before that: The Quiet Ledger.", "-"),
            ("There's not enough information to say.", "-"),
            ("The Quiet Ledger and Moth & Meridian.", "-"),
        ),
    ),
    Scene(
        "aggregation", "after", ("Mina Torvald", "the #harbor-ops channel", "quarterly game days"), "", "",
        "What do you know about incident drills: owner, channel, cadence?",
        (
            ("Mina Torvald owns the drills; they are run in #harbor-ops as quarterly game days.", "+++"),
            ("Owner: Mina Torvald. Channel: #harbor-ops. Cadence: once a quarter.", "++-"),
            ("Mina owns them, the channel is harbor ops, and there are game days every quarter.", "+++"),
            ("Drills are game days held quarterly. The owner and the channel weren't mentioned.", "--+"),
            ("I only know that Mina Torvald owns them.", "+--"),
            ("The channel is #harbor-dev and the owner is Mina Torvald.", "+--"),
        ),
    ),
    Scene(
        "absence", "before", ("Wednesday evening choir",), "", "", "What is my regular appointment?",
        (
            ("It's the choir on Wednesday evenings; should you move, that might end.", "+"),
            ("I'm not aware of any.", "-"),
            ("Wednesday evening choir, as long as you live in Lowick.", "+"),
            ("Thursday evening choir.", "-"),
        ),
    ),
    Scene(
        "cascade", "before", ("Mondays at 9:15",), "", "", "When is my tutoring session?",
        (
            ("Mondays at 9:15.", "+"),
            ("Your tutoring session is Monday 9:15 and would move to every second Friday at 10:30 with another school.",
             "+"),
            ("Every second Friday at 10:30.", "-"),
            ("Mondays, but I don't know the time.", "-"),
        ),
    ),
)  # fmt: skip

HARDER = tuple(
    Judged(scene, number, answer, verdict)
    for number, (scene, answer, verdict) in enumerate((s, *pair) for s in SCENES for pair in s.judged)
)
