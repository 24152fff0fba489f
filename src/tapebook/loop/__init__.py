"""The loop: the story of a tick, told by calling the rooms.

takes:  rooms and ports, a deployment, a moment
gives:  a DecisionRun
never:  computes: it only calls
"""
