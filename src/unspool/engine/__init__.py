"""The state machine. Read it in this order:

1. `task`        a request in flight: its phase, and its branches with their tokens and pages
2. `engine`      add, step, cancel, close: all that a front door calls; `admission` refuses what can never run
3. `step`        the loop itself: plan, forward, combine, apply, advance, commit; `steady` is a short way
4. `scheduler`   which rows run in a step, and who waits
5. `plan`        those rows as the arrays a runner reads
6. `commit`      the only one that changes branches, with `holding` for pages, `ranked` for ranked answers
7. `transcript`  from tokens to text that is final: `stop` finds its end, `detokenize` its characters
8. `worker`      how to talk to `engine_thread`, the one that runs it all; `process` is what a fork does to it
9. `stream`      the events of one request, as they are read; `async_stream` for coroutines

`prompt` says what a caller may give, and comes before all of them.
"""
