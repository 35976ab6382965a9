import t from 'tap'
import { type ErrorSpec, KasError } from '../../src/lib/errors.ts'
import { AgentkGo, withoutGo } from '../support/agentk-go.ts'
import { startAgentsKas } from '../support/agents-kas.ts'
import { agentId } from '../support/agents-server.ts'
import { ClusterDouble } from '../support/cluster-double.ts'
import { httpText } from '../support/http-call.ts'

// Errors of authentication at the agent (doc/reference/tunnel-protocol.md 2.6), and the agent's reaction
// (doc/reference/tunnel-protocol.md 2.5).

const refusals: { spec: ErrorSpec; code: string; message: string }[] = [
  { spec: { code: 'UNAUTHENTICATED' }, code: 'Unauthenticated', message: 'unauthenticated' },
  { spec: { code: 'FORBIDDEN' }, code: 'PermissionDenied', message: 'forbidden' },
  { spec: { code: 'AGENT_NOT_FOUND' }, code: 'NotFound', message: 'agent not found' },
]
const quick = ['--config-backoff=200ms']

/** Waits until every kind of call has got the same error. */
async function toldEverywhere(agent: AgentkGo, told: { code: string; message: string }): Promise<void> {
  for (const event of ['configuration-ended', 'tunnel-closed', 'register-failed']) await agent.event(event, told)
}

for (const scheme of ['grpc', 'wss'] as const) {
  for (const { spec, code, message } of refusals) {
    // wire: error.agent.401, error.agent.403, error.agent.404
    t.test(`${spec.code}, over ${scheme}`, { skip: withoutGo }, async (t) => {
      const cluster = await ClusterDouble.start(t)
      const { directory, forward, startAgent } = await startAgentsKas(t, scheme)
      directory.failure = new KasError(spec)
      const agent = await startAgent([`--api-server=${cluster.url}`, ...quick])
      await toldEverywhere(agent, { code, message })
      const { ms } = await agent.event('backing-off')
      t.ok((ms as number) >= 1000 && (ms as number) <= 1200, 'the tunnel waits as stock does')
      directory.failure = undefined
      t.equal((await httpText(forward, { agentId, path: '/' })).status, 200, 'and comes back by itself')
      await agent.event('registered')
      t.equal(agent.all('connected').length, 1, 'on the same connection')
    })
  }

  // wire: error.agent.unavailable, error.agent.patience
  t.test(`a directory out of reach, over ${scheme}`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { directory, forward, startAgent } = await startAgentsKas(t, scheme)
    directory.failure = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
    const agent = await startAgent([`--api-server=${cluster.url}`, ...quick])
    await agent.event('register-failed', { code: 'Unavailable', message: 'unavailable' })
    const answer = httpText(forward, { agentId, path: '/' })
    directory.failure = undefined
    t.equal((await answer).status, 200)
    t.same(agent.all('backing-off'), [], 'streams stay open, so nothing is slowed down')
    t.same(agent.all('configuration-ended'), [])
    await agent.event('configuration')
  })

  // wire: error.agent.rate
  t.test(`too many calls in a minute, over ${scheme}`, { skip: withoutGo }, async (t) => {
    const { startAgent } = await startAgentsKas(t, scheme, { authenticator: { callsPerTokenPerMinute: 3 } })
    const agent = await startAgent(['--min-idle=20', ...quick]) // many, since a minute may end in between
    const { message } = await agent.event('tunnel-closed', { code: 'ResourceExhausted' })
    t.match(message, /rate limit.*exhausted.*later/i)
    await agent.event('backing-off')
  })
}

// wire: auth.absent
t.test('no token, and tokens of another form', { skip: withoutGo }, async (t) => {
  const { startAgent } = await startAgentsKas(t, 'grpc')
  for (const token of ['', 'two words', 'x'.repeat(10_000)]) {
    const agent = await startAgent(quick, { token })
    await toldEverywhere(agent, { code: 'Unauthenticated', message: 'unauthenticated' })
    await agent.kill()
  }
})

// wire: 8150.unknown-method
t.test('a method that is not served', { skip: withoutGo }, async (t) => {
  const { startAgent } = await startAgentsKas(t, 'ws')
  const agent = await startAgent(['--register-service=some.other.Registrar'])
  await agent.event('register-failed', { code: 'Unimplemented' })
  await agent.event('configuration')
  t.equal(agent.all('connected').length, 1)
})

// wire: authority.raw
t.test(
  'an :authority with raw slashes, as agents before 16.3 send it, is out of reach',
  { skip: withoutGo },
  async (t) => {
    const { port, startAgent } = await startAgentsKas(t, 'ws')
    const agent = await startAgent([`--authority=ws://127.0.0.1:${port}/`, ...quick])
    await agent.event('tunnel-closed', ({ message }) => /PROTOCOL_ERROR/.test(message as string))
  },
)

t.test('an address that does not lead to kas', { skip: withoutGo }, async (t) => {
  const cluster = await ClusterDouble.start(t)
  const kasAddress = `${cluster.url.replace('http', 'ws')}/refuse-upgrade`
  const agent = await AgentkGo.start(t, { kasAddress, token: 'good' })
  const { message } = await agent.event('dial-failed')
  t.match(message, /expected handshake response status code 101 but got 403/, 'the text that operators look for')
})
