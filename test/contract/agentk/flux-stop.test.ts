import t from 'tap'
import type { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { FluxWork } from '../../../src/agentk/modules/flux/flux-work.ts'
import { HandledPushes } from '../../../src/agentk/modules/flux/push-stream.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock, settle } from '../../support/manual-clock.ts'
import { silentLog } from './agent-side.ts'
import { FluxApi } from './flux-api.ts'

const apis = { repositories: 'source.toolkit.fluxcd.io/v1', receivers: 'notification.toolkit.fluxcd.io/v1' }
const settleMs = 7

for (const last of ['replaced', 'stream', 'change', 'call'] as const) {
  t.test(`what was begun has ended when the work has, the ${last} last`, async (t) => {
    const api = await FluxApi.start(t)
    const gate = Promise.withResolvers<void>()
    t.teardown(() => gate.resolve())
    const clock = new ManualClock()
    const isNoticed = () => eventually(() => clock.waits.includes(settleMs))
    let changes = 0
    const json: ApiClient['json'] = async (...request) => {
      if (request[0] !== 'POST') return await api.client.json(...request)
      request[3]?.throwIfAborted()
      changes += 1
      await gate.promise // a late answer
      return { status: 201, body: {} }
    }
    const streams: { projects: readonly string[]; end(): void; onPush: (project: string, id: bigint) => void }[] = []
    const calls: (() => void)[] = []
    const work = new FluxWork(
      {
        api: { json, send: (request, handler) => api.client.send(request, handler) },
        holds: () => true,
        follow: (projects, onPush) => new Promise<void>((end) => void streams.push({ projects, onPush, end })),
        call: () => new Promise<void>((end) => void calls.push(end)),
        handled: new HandledPushes(),
        onOutcome: () => undefined,
        log: silentLog,
        clock,
        random: () => 0.5,
      },
      {
        apis,
        agentId: 42n,
        externalUrl: 'https://gitlab.example.com',
        times: { settleMs, holdMs: 1000, watch: {}, webhooks: {} },
      },
    )
    const resources = [{ kind: 'GitRepository', name: 'a' }]
    api.put('receivers', 'apps/mine', { spec: { type: 'generic', resources }, status: { webhookPath: '/hook/a' } })
    api.repository('apps/a', 'https://gitlab.example.com/apps/a')
    api.repository('apps/b', 'https://gitlab.example.com/apps/b')
    const stopping = new AbortController()
    let isOver = false
    const running = work.run(stopping.signal).then(() => {
      isOver = true
    })
    await isNoticed()
    await clock.pass(settleMs)
    await eventually(() => streams.length === 1 && changes === 1)
    streams[0]?.onPush('apps/a', 1n)
    await eventually(() => calls.length === 1)
    api.repository('apps/c', 'https://gitlab.example.com/apps/c') // leads to another stream, and to another pass later
    await isNoticed()
    await clock.pass(settleMs)
    t.equal(streams.length, 2)
    api.repository('apps/d', 'https://gitlab.example.com/apps/d')
    await isNoticed()
    stopping.abort()
    const ends = {
      replaced: () => streams[0]?.end(),
      stream: () => streams[1]?.end(),
      change: () => gate.resolve(),
      call: () => calls[0]?.(),
    }
    const others = Object.entries(ends).filter(([name]) => name !== last)
    for (const end of [...others.map(([, end]) => end), ends[last]]) {
      await eventually(() => api.watches === 0)
      await settle()
      t.notOk(isOver)
      end()
    }
    await running
    await settle()
    t.strictSame([changes, streams.length], [1, 2], 'no other look was begun')
    t.strictSame(clock.waits, [])
  })
}
