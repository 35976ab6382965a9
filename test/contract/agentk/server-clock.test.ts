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
