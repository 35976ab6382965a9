import t from 'tap'
import { withoutGo } from '../support/agentk-go.ts'
import { configurationOf, startStackWithAgentkGo } from '../support/agentk-go-stack.ts'
import { agentConfiguration, directoryFile } from '../support/stack-directory.ts'

// The whole kas, as a program, changes while an agent in Go is connected.

const file = '.gitlab/agents/prod/config.yaml'
const verbose = { ...agentConfiguration, observability: { logging: { level: 'debug' } } }

t.test('the configuration follows its repository', { skip: withoutGo }, async (t) => {
  const { stack, agent } = await startStackWithAgentkGo(t, 'grpc')
  await agent.event('configuration')
  await stack.repository.push(file, JSON.stringify(verbose))
  const changed = await agent.event('configuration', (event) => configurationOf(event).observability !== undefined)
  t.match(configurationOf(changed), { observability: { logging: { level: 1 } } })

  await stack.repository.push(file, 'ci_access: [not, a, mapping]')
  const { message } = await agent.event('configuration-ended', { code: 'FailedPrecondition' })
  t.match(message, /^Config: /)
  const from = agent.events.length
  await stack.repository.push(file, JSON.stringify(agentConfiguration))
  t.not((await agent.event('configuration', {}, { from })).commit, changed.commit)
})

// wire: stream.revoked
t.test('a token that is taken away', { skip: withoutGo }, async (t) => {
  const { stack, agent, get } = await startStackWithAgentkGo(t, 'grpc')
  await agent.event('registered')
  await agent.event('configuration')
  const directory = directoryFile(stack.repository.path)
  await stack.writeDirectory({ ...directory, agents: [{ ...directory.agents[0], tokens: [] }] })
  t.match(await agent.event('configuration-ended'), { code: 'Unauthenticated', message: 'unauthenticated' })
  await stack.writeDirectory(directory)
  await stack.repository.push(file, JSON.stringify(verbose)) // kas does not send it again, since the agent has it
  await agent.event('configuration', {}, { from: agent.events.length })
  t.equal((await get('/')).status, 200)
})

t.test('kas ends and comes again', { skip: withoutGo }, async (t) => {
  const { cluster, stack, agent, get } = await startStackWithAgentkGo(t, 'wss')
  await agent.event('registered')
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const from = agent.events.length
    stack.kas.signal(signal)
    const exit = await stack.kas.exited
    t.equal(exit.code, signal === 'SIGTERM' ? 0 : -1)
    await agent.event('tunnel-closed', { code: signal === 'SIGTERM' ? 'OK' : 'Unavailable' }, { from })
    await stack.startKas()
    t.equal((await get('/')).status, 200, `after ${signal}`)
  }
  t.same(agent.all('invalid-response'), [])
  t.equal(cluster.watches, 0)
})
