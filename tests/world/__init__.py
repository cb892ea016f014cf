"""The generated world: everything that can happen to a call, in any order, held against what truly happened.

Elsewhere tests have a story each, on real processes. Here the stories are drawn from seeds, thousands of them.
The workflows, the activities, the sweeper and the ledger are the product's own; around them everything is pretended:

- `clock`: an event loop whose time passes only when nothing is left to do, so that an hour takes no time, and the same
  seed makes the same history. Each process has a clock of its own, which may be hours off; the database has another.
- `database`: the ledger on SQLite in memory, without threads; one transaction is one step.
- `temporal`: a server that runs workflows and activities, counts their timeouts and heartbeats, tries again, resets,
  terminates and forgets; `seen` is what workflows and clients see of it, `processes` what runs their activities.
- `outside`: what tools change. A body has a *true* effect at a true time, before, within or after its timeout, or
  never, and says something of it: the truth, or that it cannot tell. A probe says what was so when it looked.
- `plans`: what is asked for, by whom and in which conversation, which questions are asked and how they are answered,
  which programs run and what they ask, what goes wrong and who says what, drawn from a seed; a plan is data, so it can
  be printed and cut down to what is needed.
- `history`: a plan acted out: people, operators, policies, processes that are killed, stopped, cut off, drained.
- `answers`: what must hold of questions: one answer, from whom it may come, none lost, and the audit says so.
- `pipes`: programs that ask, and the processes that hold the pipes to them; `lines`: what must hold of them: at most
  one write of an answer, of which nobody says more than is certain, and nothing open once a run has ended.
- `oracle`: what must hold, checked against the truth after every transaction, every effect and every word.
- `stories`: plans written by hand, one for each way in which a guarantee was once broken, with what has to be seen.

`make world` runs as many as there is time for (`SEED=`, `COUNT=`, `MINUTES=`); what it finds it prints as a plan.
"""
