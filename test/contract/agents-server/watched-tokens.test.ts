import { once } from 'node:events'
import t from 'tap'
import type { AgentCall } from '../../../src/kas/agent-method.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { anyRate } from '../../support/method-rate.ts'

t.test('the token of a patient method is watched while its call runs, that of others is not', async (t) => {
  const watched: string[] = []
  const released = Promise.withResolvers<void>()
  const gitlab = {
    watchToken: (token: string) => {
      watched.push(token)
      return () => released.resolve()
    },
  }
  const began = Promise.withResolvers<void>()
  const wait = async ({ signal }: AgentCall) => {
    began.resolve()
    await once(signal, 'abort')
    throw new Error('cut')
  }
  const methods = {
    '/test.Poll/Wait': { type: 'server_stream', patient: true, rate: anyRate, serve: wait },
    '/test.Ask/Once': { type: 'unary', patient: false, rate: anyRate, serve: async () => undefined },
  } as const
  const { port } = await startAgentsServer(t, { components: { gitlab, methods } })
  const { session } = await FakeAgent.dial(port)
  t.teardown(() => session.destroy())
  const metadata = { authorization: ['Bearer good'] }
  const poll = session.open({ method: '/test.Poll/Wait', metadata })
  await began.promise
  t.strictSame(watched, ['good'])
  await session.open({ method: '/test.Ask/Once', metadata }).done
  t.strictSame(watched, ['good'])
  poll.cancel()
  await released.promise
})
