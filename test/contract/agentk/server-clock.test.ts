import t from 'tap'
import { ServerClock } from '../../../src/agentk/cluster/server-clock.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { startModule, startSide } from './api-server.ts'

t.test('the time of the API server is that of its answers', async (t) => {
  const aheadMs = 3_600_000
  const { port } = await startSide(t, (_, response) => {
    response.setHeader('Date', new Date(Date.now() + aheadMs).toUTCString())
    response.end('{}')
  })
  const clock = new ServerClock(systemClock)
  const { client } = startModule(t, port, {}, { onDate: (date, waitedMs) => clock.answered(date, waitedMs) })
  t.equal((await client.json('GET', '/version')).status, 200)
  const ahead = clock.now() - Date.now()
  t.ok(Math.abs(ahead - aheadMs) < 2000, `${ahead}`)
})

t.test('without a date, and of a server that is not there, it is the time of the machine', async (t) => {
  const { port } = await startSide(t, (_, response) => {
    response.sendDate = false
    response.end('{}')
  })
  const dates: string[] = []
  const { client } = startModule(t, port, {}, { onDate: (date) => dates.push(date) })
  await client.json('GET', '/version')
  t.strictSame(dates, [''])
})

t.test('a server behind an APIService has another clock', async (t) => {
  const { port } = await startSide(t, (_, response) => {
    response.setHeader('Date', 'Fri, 31 Dec 9999 23:59:59 GMT')
    response.end('{}')
  })
  const dates: string[] = []
  const { client } = startModule(t, port, {}, { onDate: (date) => dates.push(date) })
  const others = ['/apis/metrics.k8s.io/v1beta1/nodes', '/apis/example.com', '/apis/example.com?a=/apps/v1']
  for (const path of others) t.equal((await client.json('GET', path)).status, 200)
  t.strictSame(dates, [])
  const own = ['/apis', '/api/v1/nodes?limit=1', '/version', '/apis/apps/v1', '/apis/coordination.k8s.io/v1/leases']
  for (const path of own) await client.json('GET', path)
  t.equal(dates.length, own.length)
})
