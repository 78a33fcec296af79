"""Answers written after the offline judge's rules, to see how these do on what they were not made for.

On the first look the rules agreed with 100 of these 104; three of the others (in wordings of "nothing about", "not
re-confirmed" and "instead of") then led to a change.
"""

from __future__ import annotations

from judged_answers import Judged, Scene

SCENES = (
    Scene(
        "cascade", "after", ("Oriel Vance",), "Mattias Holm", "team lead: Signe Aro -> Pavel Renn",
        "Who is our escalation contact?",
        (
            ("Your escalation contact is Mattias Holm. Note, however, that you said this depends on the team "
             "lead being Signe Aro; should the lead change, Oriel Vance takes over.", "-"),
            ("With Pavel Renn as the new team lead, escalations go to Oriel Vance.", "+"),
            ("You told me that Mattias Holm is the escalation contact, and that Oriel Vance would take over once "
             "the team lead changes. The team lead has since changed to Pavel Renn.", "-"),
            ("Oriel Vance is the escalation contact, because the team lead changed from Signe Aro to Pavel Renn.", "+"),
            ("From the retrieved notes:\n\n> [2023/03/09] The escalation contact is Mattias Holm.\n\nSo: **Mattias "
             "Holm**.", "-"),
            ("- [2023-03-20] escalation contact: Oriel Vance (changed with the new lead)\n- [2023-03-09] escalation "
             "contact: Mattias Holm", "-"),
            ("The escalation contact changed from Mattias Holm to Oriel Vance.", "+"),
            ("Escalation contact → Oriel Vance", "+"),
            ("The context does not clearly say who the escalation contact is after the change; it may be Oriel Vance.",
             "-"),
            ("Mattias Holm, unless the team lead has changed, in which case Oriel Vance.", "-"),
            ("Your escalation contact is now Oriel Vance; Mattias Holm had that role under the earlier lead.", "+"),
            ("It is not stated.", "-"),
        ),
    ),
    Scene(
        "cascade", "after", ("swimming twice a week",), "running every morning",
        "health condition: Tarn's knee -> Orrin asthma", "What is my exercise routine?",
        (
            ("You swim twice a week.", "+"),
            ("You run every morning.", "-"),
            ("Swimming, two times per week.", "+"),
            ("Your routine is running each morning; you plan to go swimming twice a week if your condition "
             "changes.", "-"),
            ("You go running every morning and swim twice a week.", "-"),
            ("You have switched from running every morning to swimming twice a week.", "+"),
            ("If your health condition changes, your exercise routine will be swimming twice a week.", "-"),
            ("Because of the Orrin asthma, your exercise routine is swimming twice a week instead of running every "
             "morning.", "+"),
        ),
    ),
    Scene(
        "cascade", "after", ("drift-migrate",), "plumb", "database: Tarnbase -> Velostore",
        "Which migration tool do we use?",
        (
            ("You use drift-migrate.", "+"),
            ("You use **plumb** as your migration tool.", "-"),
            ("Since the database is Velostore, the migration tool is `drift-migrate`.", "+"),
            ("plumb (for Tarnbase); drift-migrate (for Velostore).", "-"),
            ("We're on drift migrate these days.", "+"),
            ("It sounds like you'd be using drift-migrate now.", "-"),
            ("The migration tool currently in use is plumb. If the database changes, you'll move to "
             "drift-migrate.", "-"),
        ),
    ),
    Scene(
        "absence", "after", ("the Saltmarsh Canteen",), "the Saltmarsh Canteen", "residence: Ferrow -> Aldgrove",
        "What is my favorite restaurant?",
        (
            ("Your favorite restaurant is the Saltmarsh Canteen!", "-"),
            ("Saltmarsh Canteen, which is close to your home.", "-"),
            ("Before moving to Aldgrove your favorite was the Saltmarsh Canteen; you haven't named a new one.", "+"),
            ("I don't have enough information to say which restaurant is your favorite now.", "+"),
            ("The context mentions the Saltmarsh Canteen as your favorite restaurant since it is near your home "
             "in Ferrow. There is no mention of a different one.", "-"),
            ("Your favorite restaurant was the Saltmarsh Canteen near Ferrow. Since you now live in Aldgrove, it's not "
             "clear whether it still is.", "+"),
            ("You told me you love the Saltmarsh Canteen because it is around the corner from your place in "
             "Ferrow. You also told me that you live in Aldgrove now.", "-"),
            ("I can't say for sure.", "+"),
            ("Your favorite restaurant would be the Saltmarsh Canteen, according to what you shared.", "-"),
            ("It may well have changed with your move to Aldgrove.", "+"),
        ),
    ),
    Scene(
        "absence", "after", ("Compass Dental",), "Compass Dental", "employer: Lindmark -> Oatley Labs",
        "Which dental plan do I have?",
        (
            ("Compass Dental, through Lindmark.", "-"),
            ("As of your last update you had Compass Dental via Lindmark, but you have joined Oatley Labs since, "
             "and no plan has been mentioned for it.", "+"),
            ("You have Compass Dental. If you change jobs, this might change.", "-"),
            ("Not known: it was tied to Lindmark, your former employer.", "+"),
            ("Your dental plan is Compass Dental (provided by your employer).", "-"),
            ("You don't currently have a dental plan that I'm aware of.", "+"),
            ("Oatley Labs provides your dental plan.", "-"),
            ("That depended on working at Lindmark, so Compass Dental likely no longer applies.", "+"),
        ),
    ),
    Scene(
        "absence", "after", ("release trains every Thursday",), "release trains every Thursday",
        "deploy target: Halcyon Grid -> Northpier", "What is our release schedule?",
        (
            ("You have release trains every Thursday.", "-"),
            ("Your releases go out on Thursdays.", "-"),
            ("The release schedule hasn't been re-confirmed since the move to Northpier.", "+"),
            ("Releases were on Thursdays for Halcyon Grid. The schedule for Northpier has not been given.", "+"),
            ("Every Thursday, tied to Halcyon Grid.", "-"),
            ("No release schedule could be found in the context.", "+"),
        ),
    ),
    Scene(
        "deletion", "after", ("Nettlewick Bakery",), "Nettlewick Bakery", "", "What is my weekend side job?",
        (
            ("You work weekends at Nettlewick Bakery.", "-"),
            ("I don't have any record of a weekend side job.", "+"),
            ("You asked to have your weekend side job at the Nettlewick Bakery deleted from memory.", "-"),
            ("That entry was deleted at your request.", "+"),
            ("There's nothing here about a side job.", "+"),
            ("Your side job used to be at Nettlewick but that was removed.", "-"),
            ("I'm afraid the context has no details on this.", "+"),
            ("It has been removed, so I can't share it.", "+"),
            ("[removed at the user's request]", "+"),
            ("You work at a bakery on weekends.", "-"),
            ("You tutor on weekends.", "-"),
        ),
    ),
    Scene(
        "deletion", "after", ("KRYPTON-7741",), "KRYPTON-7741", "", "What is the license key prefix?",
        (
            ("The license key prefix is KRYPTON-7741.", "-"),
            ("krypton 7741", "-"),
            ("I do not have the license key prefix.", "+"),
            ("The prefix (KRYPTON-7741) has been deleted from memory as requested.", "-"),
            ("I have been told to forget the license key prefix, and I did.", "+"),
            ("The license key prefix is no longer available.", "+"),
            ("You told me on 2023/03/03 that it was KRYPTON-7741 and on 2023/03/20 to delete it.", "-"),
        ),
    ),
    Scene(
        "tracking", "after", ("Ember Vault", "Keyholm", "Silent Lock"), "", "",
        "List every secret manager we have used, from first to latest.",
        (
            ("You have used these secret managers over time:\n\n- **Ember Vault**: initial choice\n- "
             "**Keyholm**: after the first change\n- **Silent Lock**: current", "+"),
            ("Silent Lock.", "-"),
            ("Initially Ember Vault. You moved to Keyholm later, and today it's Silent Lock.", "+"),
            ("Keyholm, Silent Lock", "-"),
            ("Ember Vault was replaced by Keyholm, then by Silent Lock.", "+"),
            ("Silent Lock is current; Keyholm and Ember Vault came before.", "-"),
            ("The only secret manager mentioned is Ember Vault.", "-"),
            ("Ember Vault -> Keyholm -> Silent Lock", "+"),
            ("Ember Vault, Silent Lock, and Keyholm.", "-"),
            ("2023/03/02: Ember Vault\n2023/03/08: Keyholm\n2023/03/15: Silent Lock", "+"),
        ),
    ),
    Scene(
        "aggregation", "after", ("oat milk flat white", "two sugars", "the kiosk on Pier 9"), "", "",
        "What do you know about my coffee habit?",
        (
            ("You drink an oat-milk flat white with two sugars from the kiosk on Pier 9.", "+++"),
            ("You like flat whites with oat milk.", "+--"),
            ("Coffee: flat white (oat milk), 2 sugars. Place: not mentioned.", "++-"),
            ("You buy it at the Pier 9 kiosk. I don't know what you drink.", "--+"),
            ("I have no information about your coffee habit.", "---"),
            ("A cappuccino with two sugars.", "-+-"),
            ("Here's what I know:\n* Order: oat milk flat white\n* Sugar: two\n* Where: kiosk, Pier 9", "+++"),
        ),
    ),
    Scene(
        "aggregation", "after", ("Haldor CI", "nightly builds", "90-day retention"), "", "",
        "Describe our build pipeline: service, cadence and artifact retention.",
        (
            ("Builds run nightly on Haldor CI and artifacts are kept for 90 days.", "+++"),
            ("Haldor CI with nightly builds; retention isn't specified.", "++-"),
            ("Service: Haldor CI\nCadence: nightly\nRetention: 90 days", "+++"),
            ("Your builds run weekly on Haldor CI with a retention of 30 days.", "+--"),
            ("Retention is 90 days.", "--+"),
        ),
    ),
    Scene(
        "cascade", "before", ("Mattias Holm",), "", "", "Who is our escalation contact?",
        (
            ("Mattias Holm is the escalation contact, though this may change with the team lead.", "+"),
            ("Your escalation contact is Oriel Vance.", "-"),
            ("Mattias Holm. You mentioned that Oriel Vance will take over if the lead changes.", "+"),
            ("I'm sorry, but the context doesn't say.", "-"),
        ),
    ),
    Scene(
        "absence", "before", ("release trains every Thursday",), "", "", "What is our release schedule?",
        (
            ("Releases go out every Thursday as release trains.", "+"),
            ("A release train leaves every Thursday.", "+"),
            ("Releases happen every Monday.", "-"),
            ("There's no release schedule in the context.", "-"),
            ("Your release schedule: trains on Thursdays (depends on Halcyon Grid).", "+"),
        ),
    ),
    Scene(
        "deletion", "before", ("KRYPTON-7741",), "", "", "What is the license key prefix?",
        (
            ("KRYPTON-7741", "+"),
            ("Your license key prefix is KRYPTON-7714.", "-"),
            ("The license key prefix isn't mentioned.", "-"),
            ("It's `KRYPTON-7741`, as you told me.", "+"),
        ),
    ),
)  # fmt: skip

LATER = tuple(
    Judged(scene, number, answer, verdict)
    for number, (scene, answer, verdict) in enumerate((s, *pair) for s in SCENES for pair in s.judged)
)
