import t from 'tap'
import { askedRounds } from '../support/asked-rounds.ts'

t.test('of three replicas one asks each repository; hooks are heard; the one that asked is killed', async (t) => {
  await askedRounds(t, {
    replicas: 3,
    projects: 3,
    agentsOfProject: 2,
    pollPeriod: '1s',
    pollMs: 1000,
    windowMs: 5000,
    maxHookMs: 20_000, // on a busy machine
    maxAsked: 3 * 6, // a poll may have begun just before the window
    maxTakeOverMs: 60_000,
  })
})
