import t from 'tap'
import type { RouteReport } from '../../../src/kas/servers/ops-socket/route-report.ts'
import { kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { askSocket } from '../../support/ask-socket.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import { type Replica, startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'

/** Whole replicas with one GitLab and one agent. */

const infoPath = '/internal/agents/agentk/agent_info'

/** Connects the agent and waits until it has an idle tunnel. */
async function comes(t: { teardown(action: () => unknown): void }, { portOf, socket }: Replica): Promise<void> {
  const agent = await FakeAgent.dial(portOf('Agentk API'), 'glagent-prod')
  t.teardown(() => agent.close())
  agent.open([kubernetesApiMethod])
  await eventually(async () => {
    const { own } = (await askSocket(socket, '/route?agent=42')) as RouteReport
    if (own.tunnels === 0) throw new Error('it is not let in')
  })
}

t.test('what one replica was answered holds at the others, though GitLab is away by then', async (t) => {
  const { gitlab, replicas, startAgain } = await startWholeReplicas(t, 2)
  const [first, second] = replicas as [Replica, Replica]
  await comes(t, first)
  t.equal(gitlab.of(infoPath).length, 1)
  await gitlab.leave()
  await comes(t, second)
  await first.app.stop(AbortSignal.abort())
  await comes(t, await startAgain(0)) // a replica that has just started
  t.equal(gitlab.of(infoPath).length, 1)
})
