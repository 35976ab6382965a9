import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { createAgentTracker } from '../../../../../src/kas/modules/agent-tracker/module.ts'
import { AgentTracker } from '../../../../../src/proto/gen/agent_tracker_rpc_pb.ts'
import { ForgetPodRequestSchema } from '../../../../../src/proto/gen/replica_registrations_pb.ts'
import { someAgent as agent } from '../../../../support/fake-agent-call.ts'
import { fakeHost } from '../../../../support/fake-host.ts'

const meta = Buffer.from([0x0a, 2, 0x76, 0x31])

function start() {
  const tracker = createAgentTracker(fakeHost())
  const { getConnectedAgentsByProjectIDs: method } = AgentTracker.method
  const answer = tracker.railsMethods?.get(`/${AgentTracker.typeName}/${method.name}`)
  const path = '/kas.replica.v1.Registrations/ForgetPod'
  const forgetPod = tracker.replicaMethods?.get(path)
  if (!answer || !forgetPod) throw new Error('a method is not served')
  const request = toBinary(method.input, create(method.input, { projectIds: [agent.project.id] }))
  /** Returns the pods that GitLab sees. */
  const pods = async () =>
    fromBinary(method.output, await answer(request)).agents.map(({ connectionId }) => connectionId)
  return { tracker, pods, forgetPod }
}

t.test('a pod that is kept registered is listed for GitLab, until it is not', async (t) => {
  const { tracker, pods } = start()
  const unregisterFirst = tracker.keepRegistered(agent, meta)
  const [first] = await pods()
  const unregisterSecond = tracker.keepRegistered(agent, meta)
  t.equal((await pods()).length, 2, 'each stream is a pod')
  unregisterSecond()
  t.strictSame(await pods(), [first])
  unregisterFirst()
  t.strictSame(await pods(), [])
})

t.test('a pod that another replica has is forgotten', async (t) => {
  const { tracker, pods, forgetPod } = start()
  t.teardown(tracker.keepRegistered(agent, meta))
  const [podId] = await pods()
  const forget = (id: bigint) =>
    forgetPod(toBinary(ForgetPodRequestSchema, create(ForgetPodRequestSchema, { agentId: agent.id, podId: id })))
  await forget(1n)
  t.strictSame(await pods(), [podId])
  await forget(podId ?? 0n)
  t.strictSame(await pods(), [])
})

t.test('a replica that is alone has nothing to share with peers', (t) => {
  t.equal(start().tracker.services, undefined)
  t.end()
})
