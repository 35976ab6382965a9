import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import type { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { upgradeToApi } from '../../../src/agentk/cluster/api-upgrade.ts'
import type { Clock } from '../../../src/lib/clock.ts'
import { apiClient } from '../../support/api-client.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { listen } from './api-server.ts'

/** An API server that does not listen for a while. Unsent calls wait for it, for a bounded time. */

const upgrade = { method: 'GET', path: '/exec', headers: ['Connection', 'Upgrade', 'Upgrade', 'echo'] }
const { signal } = new AbortController()

t.test('an upgrade waits for a server that comes back', async (t) => {
  const server = createServer()
  const { client, port } = await absent(t, { patienceMs: 5_000 })
  let attempts = 0
  countAttempts(client, () => {
    if (++attempts === 3) server.listen(port, '127.0.0.1')
  })
  t.teardown(() => server.close())
  server.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
  })
  const answer = await upgradeToApi(client, upgrade, signal)
  t.equal(answer.kind, 'upgraded')
  t.ok(attempts >= 3)
})

t.test('one that was sent is not sent again', async (t) => {
  const server = createServer()
  let asked = 0
  server.on('upgrade', (_, socket) => {
    asked++
    socket.destroy()
  })
  const port = await listen(server)
  t.teardown(() => server.close())
  const client = apiClient(t, { server: `http://127.0.0.1:${port}` }, { dialPatienceMs: 5_000 })
  await t.rejects(upgradeToApi(client, upgrade, signal), { code: 'ECONNRESET' })
  t.equal(asked, 1)
})

t.test('the wait ends, with its bound or its caller', async (t) => {
  const { client } = await absent(t, { patienceMs: 100 })
  let attempts = 0
  countAttempts(client, () => attempts++)
  const told = { code: 'UNREACHABLE', message: /^the API server has not answered since 2.*Z: connect ECONNREFUSED 127/ }
  await t.rejects(upgradeToApi(client, upgrade, signal), told)
  t.ok(attempts > 1)
  await t.rejects(client.json('GET', '/'), told)

  const patient = await absent(t, { patienceMs: 60_000 })
  const caller = new AbortController()
  const reason = new Error('the caller left')
  countAttempts(patient.client, () => queueMicrotask(() => caller.abort(reason)))
  await t.rejects(upgradeToApi(patient.client, upgrade, caller.signal), reason)
})

t.test('a dead server: calls fail at once, also upgrades, until it answers again', async (t) => {
  const clock = new ManualClock()
  const { client, port } = await absent(t, { patienceMs: 15_000, clock })
  let attempts = 0
  countAttempts(client, () => attempts++)
  const first = client.json('GET', '/').catch((error) => error)
  const second = upgradeToApi(client, upgrade, signal).catch((error) => error)
  let isOver = false
  void Promise.all([first, second]).then(() => {
    isOver = true
  })
  const ends = await movedUntil(clock, () => isOver)
  t.ok(ends >= 15_000 && ends < 17_000, 'a restart would have been waited for')
  const since = /^the API server has not answered since 2026-06-01T00:00:00.000Z: connect ECONNREFUSED/
  t.match([await first, await second], [{ message: since }, { message: since }], 'both since the same dial')

  attempts = 0
  for (let i = 0; i < 10; i++) {
    await t.rejects(client.json('GET', '/'), { message: since }, 'the clock stands still')
    await t.rejects(upgradeToApi(client, upgrade, signal), { message: since })
  }
  t.equal(attempts, 0, 'no request is made')

  const server = createServer((_, response) => response.end('"here"'))
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const answers = await Promise.all([client.json('GET', '/'), client.json('GET', '/'), client.json('POST', '/', {})])
  t.same(
    answers.map(({ body }) => body),
    ['here', 'here', 'here'],
    'the first ones after it is back',
  )
})

t.test('a caller that leaves while a dead server is asked is gone at once', async (t) => {
  const { client } = await absent(t, { patienceMs: 0 })
  await t.rejects(client.json('GET', '/'))
  const reason = new Error('the caller left')
  const caller = new AbortController()
  const call = client.json('GET', '/', undefined, caller.signal)
  const upgraded = upgradeToApi(client, upgrade, caller.signal)
  caller.abort(reason)
  await t.rejects(call, reason)
  await t.rejects(upgraded, reason)
})

t.test('how long calls take, with a patience of 200 ms', async (t) => {
  const { client, port } = await absent(t, { patienceMs: 200 })
  const told: string[] = []
  const timed = async (what: string, call: () => Promise<unknown>) => {
    const startedAt = performance.now()
    const outcome = await call().then(
      () => 'answered',
      () => 'failed',
    )
    told.push(outcome)
    t.comment(`${what}: ${outcome} after ${(performance.now() - startedAt).toFixed(1)} ms`)
  }
  for (const what of ['first call after it died', '2nd', '3rd', '4th', '5th', '6th', '7th', '8th', '9th', '10th'])
    await timed(what, () => client.json('GET', '/'))
  const server = createServer((_, response) => response.end('{}'))
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await timed('first call after it is back', () => client.json('GET', '/'))
  t.same(told, [...Array.from({ length: 10 }, () => 'failed'), 'answered'])
})

/** Moves the clock until `isDone`. @returns the time passed, ms */
async function movedUntil(clock: ManualClock, isDone: () => boolean): Promise<number> {
  const from = clock.now()
  while (!isDone()) {
    // a refused dial takes turns of the event loop before its caller waits
    await clock.pass(clock.waits.length === 2 ? Math.max(1, clock.waits[0] as number) : 0)
  }
  return clock.now() - from
}

/** Returns a client of a port where nothing listens. */
async function absent(
  t: Test,
  { patienceMs, ...options }: { patienceMs: number; clock?: Clock },
): Promise<{ client: ApiClient; port: number }> {
  const probe = createServer()
  const port = await listen(probe)
  await new Promise((resolve) => probe.close(resolve))
  const client = apiClient(t, { server: `http://127.0.0.1:${port}` }, { dialPatienceMs: patienceMs, ...options })
  return { client, port }
}

/** Calls `onAttempt` for each attempt: each one asks for the credentials. */
function countAttempts(client: ApiClient, onAttempt: () => void): void {
  Object.assign(client.access, {
    authorization: () => {
      onAttempt()
      return undefined
    },
  })
}
