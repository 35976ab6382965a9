import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { upgradeToApi } from '../../../src/agentk/cluster/api-upgrade.ts'
import { ClusterAccess } from '../../../src/agentk/cluster/cluster-access.ts'
import { listen } from './api-server.ts'

/** An API server that does not listen for a while: what was never sent waits, for a bounded time. */

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
  const client = new ApiClient(new ClusterAccess({ server: `http://127.0.0.1:${port}` }), { dialPatienceMs: 5_000 })
  await t.rejects(upgradeToApi(client, upgrade, signal), { code: 'ECONNRESET' })
  t.equal(asked, 1)
})

t.test('the wait ends, with its bound or its caller', async (t) => {
  const { client } = await absent(t, { patienceMs: 100 })
  let attempts = 0
  countAttempts(client, () => attempts++)
  await t.rejects(upgradeToApi(client, upgrade, signal), { code: 'ECONNREFUSED' })
  t.ok(attempts > 1)
  await t.rejects(client.json('GET', '/'), { code: 'ECONNREFUSED' })

  const patient = await absent(t, { patienceMs: 60_000 })
  const caller = new AbortController()
  const reason = new Error('the caller left')
  countAttempts(patient.client, () => queueMicrotask(() => caller.abort(reason)))
  await t.rejects(upgradeToApi(patient.client, upgrade, caller.signal), reason)
})

/** A client of a port where nothing listens. */
async function absent(t: Test, { patienceMs }: { patienceMs: number }): Promise<{ client: ApiClient; port: number }> {
  const probe = createServer()
  const port = await listen(probe)
  await new Promise((resolve) => probe.close(resolve))
  const access = new ClusterAccess({ server: `http://127.0.0.1:${port}` })
  const client = new ApiClient(access, { dialPatienceMs: patienceMs })
  t.teardown(() => client.close())
  return { client, port }
}

/** Each attempt asks for the credentials. */
function countAttempts(client: ApiClient, onAttempt: () => void): void {
  Object.assign(client.access, {
    authorization: () => {
      onAttempt()
      return undefined
    },
  })
}
