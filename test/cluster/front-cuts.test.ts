import t from 'tap'
import { BehindCuttingFront, type BehindOptions } from './behind-cutting-front.ts'

/**
 * Fronts that cut idle connections, and old ones, without a warning. The times are shorter than the usual 60 s and 5
 * minutes (`npm run soak -- cutting-front`).
 */

const old: BehindOptions = {
  ageMs: 2000,
  agents: [
    { agent: 42, scheme: 'grpc' },
    { agent: 43, scheme: 'ws' },
  ],
}
/** a little longer than agentk's interval of PINGs */
const idle: BehindOptions = {
  idleMs: 7000,
  agents: [
    { agent: 42, scheme: 'grpc' },
    { agent: 43, scheme: 'ws', isIdle: true },
  ],
}

t.test('a front that cuts', { timeout: 90_000 }, async (t) => {
  t.jobs = 2 // they mostly wait
  await Promise.all([
    t.test('all connections when they are 2 s old', { buffered: true }, async (t) => {
      const behind = await BehindCuttingFront.start(t, old)
      await behind.cut({ ofAgents: 10, ofCallers: 10 })
      await behind.check(t, { agentsCut: true })
    }),
    t.test('idle connections', { buffered: true }, async (t) => {
      const behind = await BehindCuttingFront.start(t, idle)
      await behind.cut({ ofAgents: 0, ofCallers: 1 })
      await behind.check(t, { agentsCut: false })
    }),
  ])
})
