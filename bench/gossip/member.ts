/** The membership of one replica in a process of its own: it answers the bench's questions, one after another. */

import type { AgentId } from '../../src/call/call.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createRegistry } from '../../src/lib/metrics.ts'
import { createSources, type RowConnection } from '../../src/membership/membership.ts'
import { createMembership } from '../../test/support/membership.ts'
import { machineTime } from '../support/machine-time.ts'
import type { Change, ChangesAnswer, MemberSettings, Question, RestAnswer } from './questions.ts'

const { name, port, members } = JSON.parse(process.argv[2] as string) as MemberSettings
const log = createLogger({ level: 'error' })
const sources = createSources(
  { log, clock: systemClock, random: Math.random },
  { settings: { static: members }, surroundings: { inCluster: false, gossipPort: port } },
)
const membership = createMembership(
  { name, listen: { host: '127.0.0.1', port } },
  { log, sources, metrics: createRegistry() },
)
process.on('disconnect', () => process.exit())
process.on('message', async (question: Question) => {
  process.send?.(await answer(question))
})
await membership.start()
membership.setState('serving')
await allServe()
process.send?.('all serve')

/** Resolves when every replica has all others, and they are connected. */
async function allServe(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const look = () => {
    const there = membership
      .members()
      .filter(({ state, self, connected }) => state === 'serving' && (self || connected))
    if (there.length === members.length) resolve()
  }
  const stop = membership.onChange(look)
  look()
  await promise
  stop()
}

async function answer(question: Question): Promise<RestAnswer | ChangesAnswer> {
  const began = machineTime()
  const cpu = process.cpuUsage()
  const more = question.kind === 'rest' ? await pause(question.ms) : await change(question)
  const { user, system } = process.cpuUsage(cpu)
  return { cpuMs: (user + system) / 1000, tookMs: machineTime() - began, ...more }
}

async function change({ own, others }: Extract<Question, { kind: 'changes' }>) {
  const madeAt: Record<string, number> = {}
  const heardAt: Record<string, number> = {}
  const missing = new Set(others.map((agentId) => BigInt(agentId) as AgentId))
  const { promise: allHeard, resolve } = Promise.withResolvers<void>()
  const look = (agentIds: Iterable<AgentId>) => {
    for (const agentId of agentIds) {
      if (!missing.has(agentId) || membership.holders(agentId).length === 0) continue
      heardAt[String(agentId)] = machineTime()
      missing.delete(agentId)
    }
    if (missing.size === 0) resolve()
  }
  // a complete row counts as a change of the agents in it
  const stop = membership.onChange((change) => look(change.kind === 'connections' ? change.agentIds : []))
  look([...missing]) // the others may have been faster
  await Promise.all([allHeard, ...own.map((one) => make(one, madeAt))])
  stop()
  return { madeAt, heardAt }
}

async function make({ agentId, afterMs }: Change, madeAt: Record<string, number>): Promise<void> {
  await pause(afterMs)
  madeAt[agentId] = machineTime()
  membership.addConnection(connectionOf(agentId))
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** An agent of today has about 30 methods. */
function connectionOf(agentId: string): RowConnection {
  return {
    id: agentId,
    agentId: BigInt(agentId) as AgentId,
    projectId: 1n,
    pod: `gitlab-agent-${agentId}-7d4b9c6f5-x2x7q`,
    role: 'home',
    methods: Array.from({ length: 30 }, (_, i) => `/gitlab.agent.kubernetes_api.rpc.KubernetesApi/Method${i}`),
    connectedAt: Date.now(),
  }
}
