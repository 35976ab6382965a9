import t from 'tap'
import { askedRounds } from '../support/asked-rounds.ts'

/** Three replicas, and the repositories of many agents at a remote Git server, at the period for such repositories. */

t.test('repositories', async (t) => {
  await askedRounds(t, {
    replicas: 3,
    projects: 100,
    agentsOfProject: 3,
    pollPeriod: '30s',
    pollMs: 30_000,
    windowMs: 60_000,
    maxAsked: 210,
    maxHookMs: 2000,
    maxTakeOverMs: 60_000,
  })
})
