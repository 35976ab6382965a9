import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { CallEnd, ObserveCall } from '../../../src/kas/access-log/call-record.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { eventually } from '../../support/eventually.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { startServer } from './start-server.ts'
import { WatchClient } from './watch-client.ts'

/** Modules observe the begin and the end of each request on 8154. */

const asJob = { Authorization: 'Bearer ci:42:as-job' }

async function start(t: Test, ...others: ObserveCall[]) {
  const seen: { begun: object; fields: object; end: CallEnd }[] = []
  const observe: ObserveCall = (call) => {
    const begun = call.fields()
    return (end) => void seen.push({ begun, fields: { id: call.auditId, ...call.fields() }, end })
  }
  const started = await startServer(clusterForward(echo), {}, undefined, {
    observers: [...others, observe],
    webSocketTokens: new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock }),
  })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${started.port}/k8s-proxy${path}`, { headers: asJob, ...init })
  const has = (count: number) => eventually(() => seen.length === count || Promise.reject(new Error(`${seen.length}`)))
  return { ...started, seen, ask, has }
}

t.test('who asks for what, and how it ended; also who is refused', async (t) => {
  const { seen, ask, has } = await start(t)
  const answer = await ask('/api/v1/namespaces/web/pods/a', { method: 'DELETE' })
  await answer.text()
  await has(1)
  t.match(seen[0], {
    fields: { verb: 'delete', resource: 'pods', namespace: 'web', name: 'a', agent_id: '42', as: 'gitlab:ci_job:900' },
    end: { status: answer.status, outcome: 'answered', received: 0 },
  })
  t.notOk('verb' in (seen[0]?.begun ?? {}), 'at its begin nothing is read yet')
  await ask('/api/v1/secrets', { headers: { Authorization: 'Bearer ci:42:bad' } })
  await ask('/api/v1/secrets', { headers: {} })
  await has(3)
  t.match(seen[1], { fields: { resource: 'secrets', agent_id: '42' }, end: { status: 401, outcome: 'failed' } })
  t.match(seen[2], { end: { status: 401, outcome: 'failed', reason: /./ } })
  t.notOk('caller' in (seen[2]?.fields ?? {}))
})

t.test('a watch over a WebSocket is a call of its own', async (t) => {
  const { seen, port, has } = await start(t)
  const client = await WatchClient.open(t, port, { headers: asJob })
  client.watch('one')
  await has(1)
  t.match(seen[0]?.fields, { verb: 'watch', agent_id: '42', as: 'gitlab:ci_job:900' })
  client.socket.close()
  await once(client.socket, 'close')
  await has(2)
  t.match(seen[1], { fields: { path: '/watch' }, end: { status: 101, outcome: 'upgraded' } })
})

t.test('what an observer throws is logged, and is nobody else’s', async (t) => {
  const atBegin = () => {
    throw new TypeError('begin')
  }
  const atEnd = () => () => {
    throw new TypeError('end')
  }
  const late = () => async () => {
    throw new TypeError('late')
  }
  for (const [observe, name] of [
    [atBegin, 'begin'],
    [atEnd, 'end'],
    [late, 'late'],
  ] as const) {
    const { ask, has, log } = await start(t, observe)
    for (const _ of [1, 2]) t.equal((await ask('/version')).status, 200)
    await has(2)
    const logged = log.filter((line) => line.includes('A request could not be observed'))
    t.match(logged, [new RegExp(`TypeError: ${name}`)], 'once a minute')
    t.equal(logged.length, 1)
  }
})
