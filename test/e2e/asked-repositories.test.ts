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
    maxHookMs: 20_000, // on a machine that has much to do
    maxAsked: 3 * 6, // where the window begins a poll may just have begun
    maxTakeOverMs: 60_000,
  })
})
