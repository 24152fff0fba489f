"""The databases of `places` for every test of this folder."""

from tests.db.places import connect_again as connect_again
from tests.db.places import database as database
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
