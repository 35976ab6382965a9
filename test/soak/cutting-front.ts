import t from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { BehindCuttingFront } from '../cluster/behind-cutting-front.ts'
import { buildAgentkGo, withoutGo } from '../support/agentk-go.ts'

/**
 * A front with the usual limits of load balancers: it cuts connections that are idle for 60 s or 5 minutes old, without
 * a word.
 */

const { minutes }: { minutes: number } = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"minutes":11}')
const times = { idleMs: 60_000, ageMs: 300_000 }

const title = `idle connections cut after 60 s and all after 5 minutes, for ${minutes} minutes`
t.test(title, { skip: withoutGo, timeout: minutes * 60_000 + 180_000 }, async (t) => {
  await buildAgentkGo()
  const behind = await BehindCuttingFront.start(t, {
    ...times,
    pauseMs: 100,
    agents: [
      { agent: 42, scheme: 'grpc' },
      { agent: 43, scheme: 'ws' },
      { agent: 44, scheme: 'grpc', isGo: true },
      { agent: 45, scheme: 'ws', isGo: true, isIdle: true },
    ],
  })
  await delay(minutes * 60_000)
  await behind.check(t, { agentsCut: minutes * 60_000 > times.ageMs })
})
