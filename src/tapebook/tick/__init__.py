"""The tick: one decision, from what is known to what is done.

takes:  rooms and ports (`wiring.Rooms`), a deployment, a moment.
gives:  a DecisionRun, its orders at the broker, and what the account learned.
never:  computes what a room computes: it calls them in order (`story`).
"""
