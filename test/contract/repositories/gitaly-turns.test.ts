import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { AgentConfigs } from '../../../src/kas/agent-config/agent-configs.ts'
import { moduleSchemas } from '../../../src/kas/module-schemas.ts'
import { eventually } from '../../support/eventually.ts'
import { startGitalySide } from '../../support/gitaly/gitaly-side.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const { signal } = new AbortController()
const many = 30
const perSecond = 10

t.test('many come back with the commit that they have: they wait for who is new, and for pushes', async (t) => {
  const clock = new ManualClock()
  const limits = { globalLimit: { refillPerSecond: 1000, bucketSize: 1000 } }
  const side = await startGitalySide(t, {
    clock,
    repositories: { ...limits, serverLimit: { refillPerSecond: perSecond, bucketSize: 1 }, pollMs: 600_000 },
  })
  const { folder, repository, gitaly, addresses, repositories, log } = side
  gitaly.now = () => clock.now()
  await repository.push({ other: '1' })
  const agents = Array.from({ length: many + 1 }, (_, i): Agent => {
    const id = BigInt(i + 1)
    return { id: id as AgentId, name: `agent-${id}`, project: { id, path: `group/project-${id}` } }
  })
  const known = addresses.repository(1n)
  if (!known) throw new Error('the first project lies nowhere')
  for (const { project } of agents) {
    const relativePath = `@hashed/${project.id}.git`
    if (project.id !== 1n) await symlink(repository.bare, join(folder, relativePath))
    // all of one tenant, so tenants take no turns
    addresses.learn(project.id, { ...known, repository: { ...known.repository, relativePath } }, clock.now())
  }
  const configurations = new AgentConfigs({ schemas: moduleSchemas, repositories, log, clock })
  t.teardown(() => configurations.stop())
  await configurations.start()
  const done: bigint[] = []
  const ask = (agent: Agent, isWanted: boolean) =>
    configurations.newest(agent, signal, isWanted).then((read) => {
      t.match(read, { isAbsent: true })
      done.push(agent.id)
    })
  const newest = agents.at(-1) as Agent
  const all = agents.slice(0, many).map((agent) => ask(agent, false))
  const pushed = agents[many - 1] as Agent
  const asked: Promise<unknown>[] = []
  const calls = () => gitaly.calls.length
  const step = async () => {
    const before = calls()
    clock.advance(1000 / perSecond)
    await eventually(() => {
      if (calls() === before) throw new Error('no call has begun')
    })
  }
  await eventually(() => {
    if (calls() === 0) throw new Error('no call has begun')
  })
  all.push(ask(newest, true))
  asked.push(repositories.pollAfterNotice(pushed.project.id))
  const most = 20 // of about 3 calls for each of 31 projects
  for (let i = 0; i < most; i++) await step()
  t.ok(done.includes(newest.id), `who is new has its configuration after ${most} calls`)
  t.ok(done.includes(pushed.id), 'and the one whose project was pushed to')
  t.ok(done.length < many / 2, `${done.length} of ${many + 1} have theirs`)
  while (done.length < all.length) {
    clock.advance(1000 / perSecond)
    await new Promise(setImmediate)
  }
  await Promise.all([...all, ...asked])
})
