"""The HTTP API below `/api/v1`: FastAPI on open homes.

1. `server.py` makes the application of open homes, and serves it;
2. `access.py` refuses what must not get in, and says who a caller is and what they may do;
3. `reads.py` and `writes.py` are the routes, `events.py` the stream of changes;
4. `answers.py` writes values of the façade as JSON, describes them in OpenAPI, and turns errors into problems.

Only the commands that serve import this package: FastAPI takes longer to load than most commands run.
"""
