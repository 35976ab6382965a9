import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { FreshPolls } from '../../../../../src/kas/modules/gitops/fresh-polls.ts'
import type { Reading } from '../../../../../src/kas/repositories/repositories.ts'
import type { Gitops } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

/** Starts replicas: the first one decides about polls, the second one follows the agent's sources. */
function start() {
  const clock = new ManualClock()
  /** polled projects, with the replica */
  const polled: [replica: number, projectId: bigint][] = []
  const reading = (projectId: bigint): Reading => ({ id: someAgent.id, project: { id: projectId, path: 'a/b' } })
  const replicas: FreshPolls[] = [0, 1, 2].map((i) => {
    const peers = {
      first: () => (i === 0 ? 'self' : { instance: 'i0', name: 'kas-0' }),
      call: async (_: unknown, __: typeof Gitops.method.poll, { agentId }: { agentId: AgentId }) =>
        replicas[0]?.decide(agentId),
      broadcast: async (_: unknown, { agentId }: { agentId: AgentId }) => {
        for (const [j, each] of replicas.entries()) if (j !== i) each.pollOwn(agentId)
        return new Map()
      },
    }
    return new FreshPolls({
      repositories: { pollAndReport: async (projectId) => void polled.push([i, projectId]) },
      commits: { readings: () => (i === 1 ? [reading(8n), reading(8n), reading(9n)] : []) },
      agentConfig: { followed: () => (i === 1 ? ({ agent: someAgent } as never) : undefined) },
      peers: peers as never,
      clock,
      log: capturedLog().log,
    })
  })
  return { clock, polled, replicas }
}

t.test('20 callers at three replicas share a poll: one of each project in 5 s', async (t) => {
  const { clock, polled, replicas } = start()
  const askAll = () => {
    for (let i = 0; i < 20; i++) replicas[i % 3]?.ask(someAgent.id)
    return clock.pass(0)
  }
  await askAll()
  const once = [8n, 9n, someAgent.project.id]
  t.strictSame(
    polled.map(([, id]) => id),
    once,
  )
  t.ok(
    polled.every(([replica]) => replica === 1),
    'where it is followed',
  )
  for (let ms = 0; ms < 4_900; ms += 700) {
    clock.advance(700)
    await askAll()
    if (ms + 700 < 5000) t.equal(polled.length, 3, `after ${ms + 700} ms`)
  }
  clock.advance(200)
  await askAll()
  t.equal(polled.length, 6, 'then once more')
  for (const each of replicas) each.stop()
  t.equal(clock.pending, 0)
  await askAll()
  t.equal(polled.length, 6, 'not after the stop')
})
