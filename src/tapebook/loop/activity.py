"""What a deployment did lately: the book's rows, with the marks of midnight from the tape.

The packet shows it, and the guard's caps on losses, orders and rests are weighed against it.
"""

import msgspec

from tapebook.book.activity import Session, activity, day_start
from tapebook.book.settle import Account
from tapebook.domain.activity import Activity
from tapebook.domain.agent import Deployment
from tapebook.domain.memo import Memo
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.tape.store import NO_WATERMARK, View
from tapebook.wiring import Rooms

# Most decisions are told the session that the one before was told.
_activity: Memo[tuple[Session, dict[str, int]], Activity] = Memo(lambda seen: activity(*seen))


def activity_now(
    rooms: Rooms, deployment: Deployment, seq: int, as_of: int, *, watermark: int = NO_WATERMARK
) -> Activity:
    """The activity of a deployment as of a sequence number of its stream and a moment."""
    account = rooms.book.account(deployment.id, seq=seq)
    return activity_of(rooms, deployment, account, view=View(as_of, watermark))


def activity_of(rooms: Rooms, deployment: Deployment, account: Account, *, view: View) -> Activity:
    """The same, for whoever has read the account already."""
    session = rooms.book.session(deployment.id, account, as_of=view.as_of)
    if any([close.at > view.as_of for close in session.closes]):
        # A clock that was ahead has dated it: no rest after a trade begins in the future.
        closes = tuple(close for close in session.closes if close.at <= view.as_of)
        session = msgspec.structs.replace(session, closes=closes)
    held = session.held.values()
    # Most days begin with nothing held.
    marks = marks_of(TapeQuotes(rooms.tape, view), held, at=day_start(view.as_of)) if held else {}
    return _activity((session, marks))
