import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { reconcileProjectsMethod } from '../../../src/kas/modules/flux/reconcile-projects.ts'
import { ReconcileProjectsRequestSchema, ReconcileProjectsResponseSchema } from '../../../src/proto/gen/flux_pb.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'

/** Opens the stream on which an agent receives pushes to `projects`. */
export function followProjects(agent: FakeAgent, projects: readonly string[], token = 'glagent-prod') {
  const stream = agent.session.open({
    method: reconcileProjectsMethod,
    metadata: { authorization: [`Bearer ${token}`] },
  })
  const request = create(ReconcileProjectsRequestSchema, { project: projects.map((id) => ({ id })) })
  void stream.send(toBinary(ReconcileProjectsRequestSchema, request))
  stream.end() // half-closes, as grpc-go does for a server stream
  const messages = stream.messages[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await messages.next()
    if (done) throw (await stream.done).error ?? new Error('it ended with OK')
    const { project, pushId } = fromBinary(ReconcileProjectsResponseSchema, value)
    return { path: project?.id, pushId }
  }
  return { next, stream }
}
